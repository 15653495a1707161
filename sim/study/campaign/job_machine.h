// job_machine.h — the state of one running campaign; job.h describes its behaviour. Training and
// saves are in job.cpp, failures and recovery in job_failure.cpp.
#pragma once

#include <limits>
#include <vector>

#include "sim/base/event_queue.h"
#include "sim/study/campaign/hazards.h"
#include "sim/study/campaign/job.h"
#include "sim/study/campaign/nodes.h"

namespace sim::campaign {

class Job {
 public:
  Job(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline);
  Outcome run();

 private:
  // Kinds of events, in the order in which simultaneous ones are handled.
  enum class What : std::uint8_t {
    stored,  // a copy is complete; scheduled only at the end of a campaign
    step_end,
    unblocked,  // the job continues after a save
    repace,
    detected,
    restarted,
    node_back,
    failure,
    traced,
    found,
    announced,
    pool,
    end,
    cutoff,
  };
  struct Event {
    What what;
    int index;
    std::uint32_t run;  // events of an earlier run of the job are ignored
  };
  struct Copy {
    Ledger kept;        // progress that it holds
    bool valid = true;  // true at the begin: an empty copy is always valid
    bool in_flight = false;
    Ledger flying;
    Moment complete{};
    std::int64_t next = 1;  // number of the next save in the phase
  };
  struct Straggler {
    int kind = 0, node = 0;
    Span repair{};
    bool active = false;
    bool leaves = false;  // leaves with the next save
  };

  static int largest_pool(const Spec& spec);

  void schedule(Moment when, What what, int index, std::uint32_t run = 0) {
    queue_.schedule(when, static_cast<std::uint8_t>(what), {what, index, run});
  }
  void handle(const Event& event);

  const Phase& phase() const { return spec_.phases[phase_]; }
  const std::vector<Shape>& shapes() const {
    return phase().shapes[static_cast<std::size_t>(pool_)];
  }
  const Shape& shape() const {
    return spec_.phases[shape_phase_]
        .shapes[static_cast<std::size_t>(shape_pool_)][static_cast<std::size_t>(shape_)];
  }
  int limit() const;

  void train(Moment now);
  Span pace() const;
  void plan_next();
  void repace(Moment now);
  void repace_soon(Moment now);
  void train_steps(std::int64_t steps);
  Span settle(Moment now);
  Span ideal_step() const;
  std::int64_t save_step(std::size_t tier, std::int64_t number) const;
  std::int64_t phase_end() const;
  std::int64_t next_stop() const;
  void leap();

  void store(Copy& copy, const Tier& tier, Moment now);
  void complete_copies(Moment now);
  bool due(std::size_t tier) const;
  void save(Moment now);
  void saved(Moment now);
  void finish(Moment now);
  void cut(Moment now);
  void enter(Activity next, Moment now);

  void expect(int kind);
  void strike(Moment now, Failure failure);
  void strike_traced(Moment now, const TracedFailure& traced);
  void hit(Moment now, const Failure& failure);
  int take_nodes(Moment now, const Failure& failure, bool& struck);
  void found(Moment now, int straggler);
  bool leaves(const Straggler& straggler) const;
  void take_found(Moment now);
  void stop(Moment now, int kind, int lost_nodes, Span detection);
  void lose(int kind);
  std::size_t best_copy() const;
  void decide(Moment now);
  void restarted(Moment now);
  void change_pool(Moment now, int index, bool happens);
  int wanted() const;
  bool wants_change() const;

  const Spec& spec_;
  std::vector<Slice>* timeline_;
  bool leap_;
  EventQueue<Event, Moment> queue_;
  Nodes nodes_;
  Hazards hazards_;
  std::vector<Failure> pending_;  // next failure of each kind
  std::vector<Straggler> stragglers_;
  double mean_between_ = 0;  // mean time between failures, seconds

  Activity activity_ = Activity::training;
  Moment entered_{};         // begin of the activity
  Moment since_{};           // complete steps are booked up to here
  Span pace_{};              // current duration of a step
  std::uint32_t run_ = 0;    // number of the job's current run
  std::uint32_t epoch_ = 0;  // changes when copies in flight are lost
  std::size_t phase_ = 0;
  std::int64_t phase_start_ = 0;
  int pool_ = 0;                              // pool that the job should use
  std::size_t shape_phase_ = 0;               // phase of the shape in which the job runs
  int shape_pool_ = 0, shape_ = 0;            // the same
  std::size_t trained_phase_ = 0;             // phase of the shape in which the job trained last
  int trained_pool_ = 0, trained_shape_ = 0;  // the same
  bool whole_ = false;    // this save precedes a change: saves all tiers and waits for them
  int cause_ = -1;        // cause of the current downtime
  int lost_nodes_ = 0;    // since the last training
  std::size_t from_ = 0;  // tier that the restart loads
  bool ending_ = false, done_ = false;
  Ledger current_;
  std::vector<Copy> copies_;
  Outcome out_;
};

}  // namespace sim::campaign
