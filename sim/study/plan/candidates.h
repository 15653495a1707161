// candidates.h — the entries of a search's queue, and the plans to replay before they are proven.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/study/plan/score.h"

namespace sim::planner {

// The bound or the replay that an entry's score comes from.
enum class Known : std::uint8_t { sums, order, waiting, second_bound, third_bound, replay };

struct Entry {
  Score score;
  Known known = Known::sums;
  std::uint32_t core = 0;
  std::uint16_t variant = 0;
  float full = 1;       // first bound of memory, as a share of the room for tensors
  bool sought = false;  // replayed before it is proven; its core has another entry in the queue
};

// Order of the priority queue: the best score first; of equals the one with the better bound.
struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    if (a.score != b.score) return a.score > b.score;
    if (a.known != b.known) return a.known < b.known;
    return std::pair(a.core, a.variant) > std::pair(b.core, b.variant);
  }
};

// Whether a plan is one that users write first. Such plans share few layer costs, which take little
// time to compute.
bool is_conventional(const Space& space, const PlanShape& core);

// Plans to replay before they are proven, the fastest first. Of plans that differ little only the
// first is taken. The search (search.cpp) uses it to seek a first plan, and to fill its list.
class Candidates {
 public:
  static constexpr int replays_per_wave = 4;
  // Largest share of the room for tensors that the first bound of a candidate may fill.
  static constexpr float most_full = 1 / 1.1F;

  explicit Candidates(const Space& space) : space_(space) {}

  void restart(std::vector<Entry> entries);
  int waves() const { return waves_; }

  // The next wave on the way to a first plan, given the best score so far. Empty: enough is tried.
  std::vector<Entry> seek(const std::optional<Score>& best);
  // Up to `most` entries whose first bound of memory is below `fullest`, with scores below `limit`;
  // at first the fastest of each number of stages, since the bounds of these err differently.
  std::vector<Entry> take(int most, float fullest, const std::optional<Score>& limit);

 private:
  const Space& space_;
  std::vector<Entry> entries_;
  std::vector<bool> used_;  // by entry
  int waves_ = 0, waves_in_vain_ = 0;
  std::optional<Score> best_at_last_wave_;
  std::set<std::array<std::int64_t, 8>> tried_;
};

}  // namespace sim::planner
