// bounds.h — what a plan takes at least: time and memory below those of its replay, so that a
// search that leaves a plan out because of them leaves out nothing that it looks for.
//
// First bound, for every plan, of pieces (layer_costs.h) and the order of its schedule:
//
//     time     of each stage s: forward passes of the parts in front of it, all its own passes, and
//              backward passes of the parts in front of it again. A stage's last backward pass is
//              the one of its lowest part, behind all its other forward and backward passes; weight
//              gradients that are split off may come later, and count for the stage alone
//     then     the same sums as a pipeline in the schedule's order, for plans that come to the
//              front
//     memory   of the first stage: weights, gradients and optimizer state, and what the
//              microbatches hold between forward and backward when that is most
//
// Second bound, for plans that the first does not rule out, of the programs of both ends of the
// pipeline:
//
//     memory   the bytes of all tensors together, allocation by allocation: an allocator without
//              holes
//     time     each end by itself (rank_bound.h), with all its collectives; and the pipeline in
//     outline
//              (program/build/outline.h): passes as the first bound has them, messages as they are,
//              and behind them what the ends still do
//
// Third bound, of the programs of all stages:
//
//     time     a replay of a step without its tensors (engine::least_step)
//     memory   as the second, of all stages
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/study/plan/layer_costs.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

struct Bound {
  std::int64_t step_ps = 0;
  std::int64_t bytes = 0;  // of the rank that needs most
};

// The first bound. Keeps what plans share.
class FirstBounds {
 public:
  FirstBounds(const Space& space, const std::map<LayerCostsKey, LayerCosts>& layer_costs)
      : space_(space), layer_costs_(layer_costs) {}

  Bound of(const PlanShape& core);
  // The same sums in the order of the schedule: picoseconds; 0 where the order is not known yet.
  std::int64_t step_of_order(const PlanShape& core);
  // Of every part of the model; and with the times of backward passes that are not split.
  std::vector<PassTimes> passes_of_parts(const PlanShape& core);
  std::vector<PassTimes> whole_passes_of_parts(const PlanShape& core);

 private:
  std::vector<PassTimes> passes_of_parts(const PlanShape& core, const LayerCosts& layer_costs);
  std::vector<PassTimes> least_passes_of_parts(const PlanShape& core);
  const std::vector<int>& layers(const PlanShape& core);  // of each part
  const std::vector<int>& under_way(const PlanShape& core);
  std::int64_t state_bytes(const PlanShape& core, std::int64_t parameters) const;
  std::int64_t bytes(const PlanShape& core, const LayerCosts& layer_costs,
                     const std::vector<int>& layers);

  const Space& space_;
  const std::map<LayerCostsKey, LayerCosts>& layer_costs_;
  std::map<std::tuple<int, int, int, int, Split>, std::vector<int>> layers_;
  std::map<std::tuple<int, int, int, int, int, Split>, std::vector<int>> under_way_;
};

// The second and the third bound. `room`: bytes by which the rank that is nearest to its capacity,
// or furthest above it, stays below: negative, the plan runs out of memory whatever its allocator
// does. 0 picoseconds: not known.
struct SecondBound {
  std::int64_t step_ps = 0;
  std::int64_t bytes = 0, capacity = 0;
  std::int64_t room() const { return capacity - bytes; }
};
// REQUIRES: the plan can run on the site; `plan` is the core's.
SecondBound second_bound(FirstBounds& first, const PlanShape& core, const program::Plan& plan,
                         answer::Site& site);
SecondBound third_bound(const answer::CheckedPlan& plan);

// Most bytes that the tensors of a program hold together, up to the time at which its second step
// has as many microbatches under way as the first, each rounded up as the allocator does.
std::int64_t bytes_of_tensors(const program::Program& program);

}  // namespace sim::planner
