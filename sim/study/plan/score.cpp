#include "sim/study/plan/score.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace sim::planner {

Score score(const Space& space, const Wanted& wanted, const PlanShape& core, std::int64_t step_ps) {
  const double gpus = space.bases()[core.base].gpus;
  if (wanted.objective == Objective::gpus) return {gpus, step_ps};
  // All boards have one limit, so energy is GPU time too.
  if (wanted.objective == Objective::cost || wanted.objective == Objective::energy)
    return {gpus * static_cast<double>(step_ps), step_ps};
  return {0, step_ps};
}

bool too_slow(const Space& space, const Wanted& wanted, const PlanShape& core,
              std::int64_t step_ps) {
  if (wanted.tokens_s == 0) return false;
  const program::BatchPlan& batch = space.bases()[core.base].file.plan.batch;
  const double tokens =
      static_cast<double>(batch.global_batch) * static_cast<double>(batch.sequence);
  return static_cast<double>(step_ps) * 1e-12 * wanted.tokens_s > tokens;
}

bool alike(const Space& space, const Replayed& a, const Replayed& b) {
  constexpr double within = 0.005;
  const auto fields = [&](const Replayed& one) {
    const PlanShape& c = space.cores()[one.core];
    return std::tuple(space.bases()[c.base].gpus, c.tp, c.cp, c.pp, c.micro_batch);
  };
  const auto near = [](std::int64_t x, std::int64_t y) {
    return std::abs(static_cast<double>(x - y)) <= within * static_cast<double>(x);
  };
  return fields(a) == fields(b) && near(a.step_ps, b.step_ps) && near(a.reserved, b.reserved);
}

std::vector<Replayed> lines(const Space& space, const Wanted& wanted,
                            const std::vector<Replayed>& replayed) {
  std::vector<Replayed> fit;
  for (const Replayed& one : replayed)
    if (one.fits && !too_slow(space, wanted, space.cores()[one.core], one.step_ps))
      fit.push_back(one);
  std::ranges::sort(fit, {}, [&](const Replayed& one) {
    return std::tuple(score(space, wanted, space.cores()[one.core], one.step_ps), one.core,
                      one.variant);
  });
  if (wanted.list == 0) return fit;
  std::vector<Replayed> lines;
  for (const Replayed& one : fit)
    if (std::ranges::none_of(lines, [&](const Replayed& line) { return alike(space, line, one); }))
      lines.push_back(one);
  return lines;
}

}  // namespace sim::planner
