// candidates.h — the entries of a search's queue, and the plans to replay before they are proven.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "sim/study/plan/score.h"

namespace sim::planner {

// The bound or the replay that an entry's score comes from. `sums`, `order`: the first bound.
// `waiting`: the same, and the second bound is computed next.
enum class Known : std::uint8_t { sums, order, waiting, second_bound, third_bound, replay };

struct Entry {
  Score score;
  Known known = Known::sums;
  std::uint32_t core = 0;
  std::uint16_t variant = 0;
  float full = 1;       // bound of memory, as a share of the room for tensors
  bool sought = false;  // taken by Candidates; the search's queue has its own entry of the core
};

// Order of the priority queue: the best score first; of equals the one with the better bound.
struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    if (a.score != b.score) return a.score > b.score;
    if (a.known != b.known) return a.known < b.known;
    return std::pair(a.core, a.variant) > std::pair(b.core, b.variant);
  }
};
using Queue = std::priority_queue<Entry, std::vector<Entry>, Later>;

// Whether a plan is one that users write first. Such plans share few layer costs, which take little
// time to compute.
bool is_conventional(const Space& space, const PlanShape& core);

// Plans that are likely to fit, the fastest first. The search (search.cpp) uses it to seek a first
// plan, and to fill its list.
//
// A plan that comes out for the first time gets its second bound and is put back; the next time its
// third one. With both it is replayed, unless its tensors fill so much of the room that
// fragmentation may take the rest. After many bounds the best plan that has both is replayed, even
// if bounds of others are below it.
//
// First bounds know no messages between replicas. Second bounds do, and plans of the same degrees
// send nearly the same messages. So the first bound of a plan is scaled by the ratio of both bounds
// of its degrees. That is an estimate: it orders candidates and proves nothing.
class Candidates {
 public:
  Candidates(const Space& space, const Wanted& wanted) : space_(space), wanted_(wanted) {}

  // The work that may be spent on the candidates.
  struct Work {
    int bounds = 0, replays = 0;
  };
  // `distinct`: plans with the degrees of a plan that fits come out last.
  void restart(std::vector<Entry> entries, Work work, bool distinct);

  // The next entries to compute: bounds, and replays (Known::third_bound). Empty: no plan is better
  // than `limit`, or the work is spent. `hurry`: few, and those
  // that lack the fewest bounds before their replay.
  std::vector<Entry> next(const std::optional<Score>& limit, bool hurry = false);
  // Puts an entry back with a bound that next() asked for. It is left out if it is too full.
  void put_back(const Entry& entry);
  // The second bound of a plan of these degrees, `step_ps`, and its first bound.
  void note_bounds(const PlanShape& core, std::int64_t first_ps, std::int64_t step_ps);
  void note_fit(const PlanShape& core) {
    fitting_.insert(degrees_of(core));
    failed_ = 0;
  }
  // A replayed candidate does not fit. After several of them more room is left for fragmentation.
  void note_failure() { ++failed_; }
  // Allows more work, if there are entries left.
  bool extend(Work work) {
    left_ = work;
    return !queue_.empty() || !ready_.empty();
  }

 private:
  using Degrees = std::array<std::int64_t, 5>;
  static Degrees degrees_of(const PlanShape& core) {
    return {core.base, core.tp, core.cp, core.pp, core.micro_batch};
  }
  bool passed_over(const Entry& entry);
  float most_full() const;

  struct Estimated {
    Score score;
    Entry entry;
    friend bool operator<(const Estimated& a, const Estimated& b) {
      return a.score != b.score ? a.score > b.score : Later()(a.entry, b.entry);
    }
  };
  Score estimate(const Entry& entry) const;
  void correct_front();
  std::optional<Entry> take_bounded();
  // Replays, or the next bounds on the way to them. A wave of few ends soon.
  std::vector<Entry> next_in_hurry();
  Entry sought(Entry entry, bool replay);

  const Space& space_;
  const Wanted& wanted_;
  std::priority_queue<Estimated> queue_;  // without a second bound
  std::map<Degrees, double> ratios_;      // second bound / first bound
  Queue ready_;                           // with it: to be replayed
  int waited_ = 0;                        // bounds since the last replay
  int failed_ = 0;                        // replays that do not fit, since the last that does
  std::vector<Entry> later_;              // with the degrees of a plan that fits
  bool distinct_ = false;                 // entries of these degrees wait in later_
  Work left_;
  std::set<Degrees> fitting_;
  std::map<Degrees, int> bounded_;                  // second bounds so far
  std::set<std::array<std::int64_t, 9>> replayed_;  // fields of plans that change memory
};

}  // namespace sim::planner
