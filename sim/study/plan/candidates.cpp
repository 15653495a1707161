#include "sim/study/plan/candidates.h"

#include <algorithm>
#include <utility>

namespace sim::planner {

namespace {

constexpr std::size_t bounds_together = 32, replays_together = 4;
// Share of the room for tensors that they may fill by their second bound. Fragmentation takes more.
constexpr float fullest = 0.96F;
// After each `failures` replays that do not fit this share falls by `step`, down to `emptiest`.
constexpr int failures = 8;
constexpr float step = 0.04F, emptiest = 0.6F;
// Second bounds of plans with the same degrees: with more of them other degrees are as good.
constexpr int most_bounds_of_degrees = 48;
// Bounds before a plan is replayed although others may be faster.
constexpr int longest_wait = 192;
// In a hurry: entries at once, and entries among which one with a second bound is looked for.
constexpr std::size_t together_in_hurry = 2, looked_through = 4096;

bool is_ready(const Entry& entry) {
  return entry.known == Known::third_bound;
}

}  // namespace

bool is_conventional(const Space& space, const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const program::LayerPolicy& policy = space.policies()[core.policy].policy;
  return core.micro_batch <= 2 && core.split != Split::padded &&
         row.splits == schedule::Splits::none && !row.by_times &&
         policy.recompute != program::Recompute::selective;
}

void Candidates::restart(std::vector<Entry> entries, Work work, bool distinct) {
  // Orders that go by the times of passes have no second bound, and their third one takes long.
  const auto by_times = [this](const Entry& entry) {
    return schedule::catalog()[space_.cores()[entry.core].schedule].by_times;
  };
  if (!std::ranges::all_of(entries, by_times)) std::erase_if(entries, by_times);
  queue_ = {};
  for (const Entry& entry : entries) queue_.push({estimate(entry), entry});
  ready_ = {};
  waited_ = failed_ = 0;
  later_.clear();
  distinct_ = distinct;
  left_ = work;
  bounded_.clear();
}

float Candidates::most_full() const {
  return std::max(emptiest, fullest - step * static_cast<float>(failed_ / failures));
}

void Candidates::put_back(const Entry& entry) {
  if (entry.full > most_full()) return;
  if (is_ready(entry)) {
    ready_.push(entry);
  } else {
    queue_.push({estimate(entry), entry});
  }
}

void Candidates::note_bounds(const PlanShape& core, std::int64_t first_ps, std::int64_t step_ps) {
  if (first_ps <= 0 || step_ps <= 0) return;
  const double ratio = static_cast<double>(step_ps) / static_cast<double>(first_ps);
  const auto [at, added] = ratios_.try_emplace(degrees_of(core), ratio);
  at->second = std::min(at->second, ratio);
}

Score Candidates::estimate(const Entry& entry) const {
  const PlanShape& core = space_.cores()[entry.core];
  const auto ratio = ratios_.find(degrees_of(core));
  if (entry.known >= Known::second_bound || ratio == ratios_.end()) return entry.score;
  return score(space_, wanted_, core,
               static_cast<std::int64_t>(ratio->second * static_cast<double>(entry.score.step_ps)));
}

// Ratios become known while entries wait.
void Candidates::correct_front() {
  while (!queue_.empty()) {
    const Entry entry = queue_.top().entry;
    const Score now = estimate(entry);
    if (now <= queue_.top().score) return;
    queue_.pop();
    queue_.push({now, entry});
  }
}

// Whether an entry is left out, or for later.
bool Candidates::passed_over(const Entry& entry) {
  const PlanShape& c = space_.cores()[entry.core];
  const Degrees degrees = degrees_of(c);
  if (distinct_ && fitting_.contains(degrees)) {
    later_.push_back(entry);
    return true;
  }
  if (entry.full > most_full()) return true;
  if (!is_ready(entry))
    return entry.known < Known::second_bound && ++bounded_[degrees] > most_bounds_of_degrees;
  return !replayed_
              .insert({c.base, c.tp, c.cp, c.pp, c.micro_batch, c.schedule, c.chunks, c.policy,
                       c.recompute_layers})
              .second;
}

// Of the best entries, the first that has a second bound; nothing: none has.
std::optional<Entry> Candidates::take_bounded() {
  std::vector<Estimated> passed;
  std::optional<Entry> found;
  while (!queue_.empty() && !found && passed.size() < looked_through) {
    if (queue_.top().entry.known >= Known::second_bound)
      found = queue_.top().entry;
    else
      passed.push_back(queue_.top());
    queue_.pop();
  }
  for (const Estimated& one : passed) queue_.push(one);
  return found;
}

std::vector<Entry> Candidates::next_in_hurry() {
  std::vector<Entry> taken;
  while (taken.size() < together_in_hurry && left_.bounds > 0 && left_.replays > 0 &&
         !(queue_.empty() && ready_.empty())) {
    const bool replay = !ready_.empty();
    Entry entry;
    if (replay) {
      entry = ready_.top();
      ready_.pop();
    } else if (const std::optional<Entry> bounded = take_bounded()) {
      entry = *bounded;
    } else {
      entry = queue_.top().entry;
      queue_.pop();
    }
    if (!passed_over(entry)) taken.push_back(sought(entry, replay));
  }
  return taken;
}

Entry Candidates::sought(Entry entry, bool replay) {
  entry.sought = true;
  waited_ = replay ? 0 : waited_ + 1;
  if (replay) {
    // Expandable segments, the last option, leave the least memory unused.
    entry.variant = static_cast<std::uint16_t>(entry.variant + space_.allocators() - 1);
    --left_.replays;
  } else {
    entry.known = std::max(entry.known, Known::waiting);
    --left_.bounds;
  }
  return entry;
}

std::vector<Entry> Candidates::next(const std::optional<Score>& limit, bool hurry) {
  if (hurry) return next_in_hurry();
  std::vector<Entry> taken;
  std::set<Degrees> together;
  std::size_t bounds = 0, replays = 0;
  // Limits only fall, so plans above them are of no use any more.
  if (limit && !ready_.empty() && ready_.top().score >= *limit) ready_ = {};
  while (bounds < bounds_together && replays < replays_together && left_.bounds > 0 &&
         left_.replays > 0) {
    if (queue_.empty() && ready_.empty() && distinct_) {
      distinct_ = false;
      for (const Entry& entry : std::exchange(later_, {})) put_back(entry);
    }
    correct_front();
    const bool replay = !ready_.empty() && (queue_.empty() || waited_ >= longest_wait ||
                                            queue_.top().score > ready_.top().score);
    if (!replay && queue_.empty()) break;
    Entry entry = replay ? ready_.top() : queue_.top().entry;
    if (limit && (replay ? entry.score : queue_.top().score) >= *limit) break;
    if (replay) {
      ready_.pop();
    } else {
      queue_.pop();
    }
    // Of plans with the same degrees one at a time.
    if (replay && distinct_ && !together.insert(degrees_of(space_.cores()[entry.core])).second) {
      later_.push_back(entry);
      continue;
    }
    if (passed_over(entry)) continue;
    ++(replay ? replays : bounds);
    taken.push_back(sought(entry, replay));
  }
  return taken;
}

}  // namespace sim::planner
