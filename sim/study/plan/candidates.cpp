#include "sim/study/plan/candidates.h"

#include <algorithm>
#include <utility>

namespace sim::planner {

namespace {

constexpr std::size_t bounds_together = 32, replays_together = 4;
// Share of the room for tensors that they may fill by their second bound. Fragmentation takes more.
constexpr float most_full = 0.96F;
// Second bounds of plans with the same degrees: with more of them other degrees are as good.
constexpr int most_bounds_of_degrees = 48;
// Bounds before a plan is replayed although others may be faster.
constexpr int longest_wait = 192;

bool is_ready(const Entry& entry) {
  return entry.known == Known::third_bound;
}

}  // namespace

bool is_conventional(const Space& space, const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const program::LayerPolicy& policy = space.policies()[core.policy].policy;
  return core.micro_batch <= 2 && core.split == Split::even &&
         row.splits == schedule::Splits::none && !row.by_times &&
         policy.recompute != program::Recompute::selective;
}

void Candidates::restart(std::vector<Entry> entries, Work work, bool distinct) {
  // Orders that go by the times of passes have no second bound, and their third one takes long.
  const auto by_times = [this](const Entry& entry) {
    return schedule::catalog()[space_.cores()[entry.core].schedule].by_times;
  };
  if (!std::ranges::all_of(entries, by_times)) std::erase_if(entries, by_times);
  queue_ = Queue(Later(), std::move(entries));
  ready_ = {};
  waited_ = 0;
  later_.clear();
  distinct_ = distinct;
  left_ = work;
  bounded_.clear();
}

void Candidates::put_back(const Entry& entry) {
  if (entry.full <= most_full) (is_ready(entry) ? ready_ : queue_).push(entry);
}

// Whether an entry is left out, or for later.
bool Candidates::passed_over(const Entry& entry) {
  const PlanShape& c = space_.cores()[entry.core];
  const Degrees degrees = degrees_of(c);
  if (distinct_ && fitting_.contains(degrees)) {
    later_.push_back(entry);
    return true;
  }
  if (!is_ready(entry)) return ++bounded_[degrees] > most_bounds_of_degrees;
  return !replayed_
              .insert({c.base, c.tp, c.cp, c.pp, c.micro_batch, c.schedule, c.chunks, c.policy,
                       c.recompute_layers})
              .second;
}

std::vector<Entry> Candidates::next(const std::optional<Score>& limit) {
  std::vector<Entry> taken;
  std::size_t bounds = 0, replays = 0;
  // Limits only fall, so plans above them are of no use any more.
  if (limit && !ready_.empty() && ready_.top().score >= *limit) ready_ = {};
  while (bounds < bounds_together && replays < replays_together && left_.bounds > 0 &&
         left_.replays > 0) {
    if (queue_.empty() && ready_.empty() && distinct_) {
      distinct_ = false;
      for (const Entry& entry : std::exchange(later_, {})) put_back(entry);
    }
    const bool replay = !ready_.empty() && (queue_.empty() || waited_ >= longest_wait ||
                                            Later()(queue_.top(), ready_.top()));
    Queue& from = replay ? ready_ : queue_;
    if (from.empty() || (limit && from.top().score >= *limit)) break;
    Entry entry = from.top();
    from.pop();
    if (passed_over(entry)) continue;
    entry.sought = true;
    waited_ = replay ? 0 : waited_ + 1;
    if (replay) {
      // Expandable segments, the last option, leave the least memory unused.
      entry.variant = static_cast<std::uint16_t>(entry.variant + space_.allocators() - 1);
      --left_.replays;
      ++replays;
    } else {
      entry.known = std::max(entry.known, Known::waiting);
      --left_.bounds;
      ++bounds;
    }
    taken.push_back(entry);
  }
  return taken;
}

}  // namespace sim::planner
