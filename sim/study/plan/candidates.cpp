#include "sim/study/plan/candidates.h"

#include <algorithm>

namespace sim::planner {

namespace {

// Waves without a better plan before the search proves; the same while no plan fits. With each of
// those the first bound must leave more room.
constexpr int waves_without_better = 2, waves_without_plan = 10;
constexpr float less_full = 0.06F;

}  // namespace

bool is_conventional(const Space& space, const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const program::LayerPolicy& policy = space.policies()[core.policy].policy;
  return core.micro_batch <= 2 && core.split == Split::even &&
         row.splits == schedule::Splits::none && !row.by_times &&
         policy.recompute != program::Recompute::selective;
}

void Candidates::restart(std::vector<Entry> entries) {
  entries_ = std::move(entries);
  std::ranges::sort(entries_, [](const Entry& a, const Entry& b) { return Later()(b, a); });
  used_.assign(entries_.size(), false);
  waves_ = waves_in_vain_ = 0;
  best_at_last_wave_.reset();
}

std::vector<Entry> Candidates::seek(const std::optional<Score>& best) {
  if (waves_ > 0) waves_in_vain_ = best == best_at_last_wave_ ? waves_in_vain_ + 1 : 0;
  best_at_last_wave_ = best;
  if (waves_in_vain_ >= (best ? waves_without_better : waves_without_plan)) return {};
  const float in_vain = best ? 0 : static_cast<float>(waves_in_vain_);
  return take(replays_per_wave, most_full - less_full * in_vain, best);
}

std::vector<Entry> Candidates::take(int most, float fullest, const std::optional<Score>& limit) {
  ++waves_;
  std::vector<Entry> taken;
  std::set<int> stages;
  for (const bool any_stages : {false, true})
    for (std::size_t i = 0; i < entries_.size() && std::ssize(taken) < most; ++i) {
      Entry entry = entries_[i];
      if (limit && entry.score >= *limit) break;
      if (used_[i] || entry.full > fullest) continue;
      const PlanShape& c = space_.cores()[entry.core];
      if (!any_stages && stages.contains(c.pp)) continue;
      used_[i] = true;
      if (!tried_.insert({c.tp, c.cp, c.pp, c.dp, c.micro_batch, c.schedule, c.chunks, c.policy})
               .second)
        continue;
      stages.insert(c.pp);
      // Expandable segments, the last option, leave the least memory unused.
      entry.variant = static_cast<std::uint16_t>(entry.variant + space_.allocators() - 1);
      entry.known = Known::third_bound;
      entry.sought = true;
      taken.push_back(entry);
    }
  return taken;
}

}  // namespace sim::planner
