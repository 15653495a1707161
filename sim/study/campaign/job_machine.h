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
  enum class JobEvent : std::uint8_t {
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
    JobEvent what;
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

  void schedule(Moment when, JobEvent what, int index, std::uint32_t run = 0) {
    agenda_.queue.schedule(when, static_cast<std::uint8_t>(what), {what, index, run});
  }
  void handle(const Event& event);

  const Phase& phase() const { return spec_.phases[target_.phase]; }
  const std::vector<JobShape>& shapes() const {
    return phase().shapes[static_cast<std::size_t>(target_.pool)];
  }
  const JobShape& shape() const {
    return spec_.phases[runs_.phase]
        .shapes[static_cast<std::size_t>(runs_.pool)][static_cast<std::size_t>(runs_.shape)];
  }
  int limit() const;
  bool is_ending() const { return ending_ == Ending::with_next_copy; }

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

  // A shape of a phase on a pool.
  struct ShapeOnPool {
    std::size_t phase = 0;
    int pool = 0, shape = 0;
    friend bool operator==(const ShapeOnPool&, const ShapeOnPool&) = default;
  };
  // Failures to come: the next one of each kind.
  struct ToCome {
    Hazards hazards;
    std::vector<Failure> pending;
    double mean_between = 0;  // mean time between failures, seconds
  };
  // Events to come. `run`: number of the job's current run; `epoch` changes when copies in flight
  // are lost. Events of earlier numbers are ignored.
  struct Agenda {
    EventQueue<Event, Moment> queue;
    std::uint32_t run = 0, epoch = 0;
  };
  struct Doing {
    Activity activity = Activity::training;
    Moment entered{};  // begin of the activity
    Moment since{};    // complete steps are booked up to here
    Span pace{};       // current duration of a step
  };
  // The phase and the pool that the job should be in.
  struct Target {
    std::size_t phase = 0;
    std::int64_t phase_start = 0;  // its first step
    int pool = 0;
  };
  struct Progress {
    Ledger current;
    std::vector<Copy> copies;  // by tier
    bool whole = false;        // this save precedes a change: saves all tiers and waits for them
  };
  struct Downtime {
    int cause = -1;
    int lost_nodes = 0;    // since the last training
    std::size_t from = 0;  // tier that the restart loads
  };
  enum class Ending : std::uint8_t { no, with_next_copy, done };

  const Spec& spec_;
  std::vector<Slice>* timeline_;
  bool leap_;
  Nodes nodes_;
  ToCome to_come_;
  std::vector<Straggler> stragglers_;
  Agenda agenda_;
  Doing doing_;
  Target target_;
  ShapeOnPool runs_, trained_;  // the job runs in; it trained last in
  Progress progress_;
  Downtime down_;
  Ending ending_ = Ending::no;
  Outcome out_;
};

}  // namespace sim::campaign
