// search_run.h — one search in progress: its queue, its phases and what it knows of each plan.
//
// find_best (search.h) makes one. search.cpp decides what is computed next, wave by wave.
// search_answers.cpp takes the answers and counts plans.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/study/plan/candidates.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

// A bound that is not known.
constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();
// Work on the way to a first plan, on a better one among all plans, and on further plans to list.
constexpr Candidates::Work seek_work{1024, 48}, improve_work{512, 32}, list_work{1024, 32};

class Search {
 public:
  Search(const Space& space, answer::Sites& sites, const Wanted& wanted,
         const std::function<bool(const Progress&)>& go_on)
      : space_(space), sites_(sites), wanted_(wanted), go_on_(go_on) {
    out_.counts.plans = space.plans();
    out_.counts.impossible = space.impossible();
  }

  Outcome run();

 private:
  enum class Phase : std::uint8_t { seek, prove, tight, list };
  static constexpr std::size_t failed = std::numeric_limits<std::size_t>::max();

  // Computes wave after wave of items, each in parallel, until none is left. False: stopped.
  bool run_waves();

  // Answers that arrive (search_answers.cpp).
  void take_failed_replay(const Entry& entry);

  // A plan on which the simulator fails is not recommended.
  void take_failure(std::size_t item, const std::string& why);

  answer::Site& site(const PlanShape& core) const {
    return **sites_.of(space_.bases()[core.base].file.machine);
  }

  // Whether a core belongs to this machine's share.
  bool shared(std::size_t core) const;

  // Layer costs of these cores; of all cores if there are none. False: stopped.
  bool find_layer_costs(const std::vector<std::uint32_t>& cores);

  Score score(const PlanShape& core, std::int64_t step_ps) const {
    return planner::score(space_, wanted_, core, step_ps);
  }
  bool too_slow(const PlanShape& core, std::int64_t step_ps) const {
    return planner::too_slow(space_, wanted_, core, step_ps);
  }

  void note_nearest(std::uint32_t core, std::int64_t lacks);

  // Memory for tensors, by base.
  void find_room();

  // Seeks a first plan among conventional ones. False: stopped.
  bool seek_conventional();

  void start_seek(std::vector<Entry> entries, Candidates::Work work) {
    candidates_.restart(std::move(entries), work, false);
  }
  // A plan above this score is hardly better than the best one so far.
  std::optional<Score> near_best() const;

  std::int64_t room(std::uint32_t core) const { return room_[space_.cores()[core].base]; }

  Entry entry_of(std::uint32_t c, const Bound& bound) const;

  // Computes the first bound of all plans. False: stopped.
  bool bound_all();

  // Number of plans among `count` variants that were not replayed.
  std::int64_t plans_left(std::uint32_t core, int from, int count) const;
  std::int64_t plans_left(const Entry& entry) const;
  std::int64_t plans_of_order(const Entry& entry) const;

  // Puts a replayed plan that fits into the queue.
  void offer_replay(std::size_t at);

  std::vector<std::size_t> candidates_wave(const std::optional<Score>& limit);

  std::vector<std::size_t> list_wave();

  // Replays plans in full that leave less memory free than is wanted: their bounds are below the
  // best step.
  std::vector<std::size_t> tight_wave();
  Score score_of(const Replayed& one) const;

  // Candidates for the rest of the list: plans in the queue that are likely to fit.
  void start_list();

  // The score that a plan must be below to become one of the wanted best; nothing: any.
  std::optional<Score> limit() const;

  // The next items to compute; answers of other searches are used directly.
  std::vector<std::size_t> next_wave();

  // Uses the answer of another search, or of an earlier phase. False: there is none.
  bool take_known(std::size_t item);

  std::vector<std::size_t> wave();

  // Takes entries from the queue until one with a replayed time is first, or the wave is full.
  std::vector<std::size_t> prove_wave();

  // Discards a plan; `json` null means that it is impossible.
  void drop(std::size_t item, const output::Json& json);

  std::int64_t headroom_of(const Entry& entry) const {
    return headroom(wanted_, site(space_.cores()[entry.core])).n;
  }

  void take(std::size_t item, const std::string& text);

  // Orders of ranks have the same tensors. So if those of the first order, `bytes`, need more than
  // any capacity, all orders are discarded: false. Else the other orders enter the queue.
  // If the bytes of searched orders are not known yet, the other orders wait for the third bound.
  // No bytes: the plan is impossible, or the simulator fails on it.
  bool release_orders(const Entry& entry, std::optional<std::int64_t> bytes);

  // Whether the other orders of ranks wait for this entry.
  bool holds_orders(const Entry& entry) const;
  bool goes_by_times(std::uint32_t core) const {
    return schedule::catalog()[space_.cores()[core].schedule].by_times;
  }

  // A bound of a plan that is not proven yet.
  void take_candidate(std::size_t item, Entry entry, const output::Json& json);

  void take_tight(std::size_t item, const Entry& entry, const std::string& text);

  void take_bound(std::size_t item, const Entry& entry, const output::Json& json);

  void push_next_allocator(Entry entry);

  // Whether a variant was replayed and takes as long as its bound says.
  bool reaches(const Entry& entry, int variant) const;

  // Allocator options change time only by driver calls. So they are replayed one after another,
  // from `entry` on, and if one plan is proven, the first that reaches its bound ends them.
  void push_allocators(Entry entry);

  Progress progress() const;

  // Lower bound on the plans that are not decided, seconds; 0: not known.
  double least_left() const;

  // Counts the plans that remain: cut by time if no better than the last proven plan, else left.
  void count_rest();

  void finish();

  Outcome stopped();

  struct Bounds {
    std::map<LayerCostsKey, LayerCosts> layer_costs;
    std::unique_ptr<FirstBounds> first;
    bool of_all_plans = false;   // the first bound of all plans is known
    std::vector<Entry> entries;  // with the first bound of all plans
    Answers answers;             // of candidates, by item: the proof needs them again
  };
  struct Best {
    std::optional<Score> score;
    std::int64_t step_ps = 0;
    std::uint32_t core = 0;
  };

  const Space& space_;
  answer::Sites& sites_;
  const Wanted& wanted_;
  const std::function<bool(const Progress&)>& go_on_;
  Bounds bounds_;
  Queue queue_;
  Phase phase_ = Phase::seek;
  std::vector<std::int64_t> room_;  // by base
  std::map<std::size_t, Entry> under_way_;
  // indices in out_.replayed, or `failed`
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> found_;
  Candidates candidates_{space_, wanted_};
  Best best_;  // of the replayed plans
  Outcome out_;
};

}  // namespace sim::planner
