// score.h — the order of plans by the objective of a search, and the plans of its list.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/study/plan/search.h"

namespace sim::planner {

// Smaller is better.
struct Score {
  double first = 0;  // by objective: 0, GPUs, or GPUs times step
  std::int64_t step_ps = 0;
  friend auto operator<=>(const Score&, const Score&) = default;
};
Score score(const Space& space, const Wanted& wanted, const PlanShape& core, std::int64_t step_ps);

// Whether the step is slower than the wanted rate.
bool too_slow(const Space& space, const Wanted& wanted, const PlanShape& core,
              std::int64_t step_ps);

// Replayed plans that fit, best first. With `wanted.list`, of plans that are alike only the first.
std::vector<Replayed> lines(const Space& space, const Wanted& wanted,
                            const std::vector<Replayed>& replayed);

}  // namespace sim::planner
