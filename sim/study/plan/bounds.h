// bounds.h — lower bounds on time and memory of a plan, below those of its replay. The search
// (search.h) discards plans by them without losing a plan that it looks for.
//
// A part is the piece of the model in one chunk of a stage. "Earlier parts" come before it in the
// forward pass.
//
// First bound, for every plan, from layer costs (layer_costs.h) and the schedule's order:
//
//    time     for each stage s: forward passes of the earlier parts, all passes of s, and backward
//             passes of the earlier parts, since the last backward pass of a stage is that of its
//             lowest part. Split weight gradients may run after those of the earlier parts, so they
//             count in a second sum, without the backward passes of the earlier parts
//             Where parameters are sharded also: the gathers and reductions of the first stage, one
//             after the other on the network (traffic_bound.cpp)
//    then     for plans at the front of the queue: the same pass times, run as a pipeline in the
//             schedule's order
//    memory   of the first stage: weights, gradients, optimizer state, and activations of the
//             microbatches in flight, at the moment of its order that needs most
//             (memory_bound.cpp). It comes first: of a plan that needs too much, no time is
//             computed
//
// Second bound, for plans that pass the first, from the programs of both ends of the pipeline:
//
//    memory   peak of the sum of all tensors, allocation by allocation: an allocator without
//             fragmentation. The first stage comes first: if it needs too much, nothing else is
//             computed. If pass times decide the order (zero bubble), the bound covers only the
//             first stage up to its first backward pass
//    time     each end alone (rank_bound.h) with all its collectives; and an outline of the stages
//             (program/build/outline.h): passes as in the first bound, real messages, and the work
//             of both ends after their passes
//
// Third bound, from the programs of all stages:
//
//    time     a replay of one step without its tensors (engine::least_step)
//    memory   as in the second bound, for all stages
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/engine/rank/tensor_peak.h"
#include "sim/study/plan/layer_costs.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

struct Bound {
  std::int64_t step_ps = 0;
  std::int64_t bytes = 0;  // of the rank with the largest need
};

// The state of a chunk at one moment of a stage's order.
struct InFlight {
  // Unsharded gradients of the chunk: `none` before its first backward pass and after its last one.
  enum class Gradients : std::uint8_t { none, complete, accumulated };
  int microbatches = 0;                   // between their forward and their backward pass
  Gradients gradients = Gradients::none;  // `complete`: at the end of the last backward pass
};
using Moment = std::vector<InFlight>;  // by chunk

// Moments of the first stage's order with the largest memory. A moment never counts more
// microbatches than are in flight, so a bound from it is below every replay.
std::vector<Moment> moments_of(const schedule::Schedule& row, const schedule::PipelineShape& shape);

// Number of a part's layers that are recomputed completely.
int run_again(const program::LayerPolicy& policy, int recompute_layers, int layers);

// Computes the first bound. Caches values that plans share.
class FirstBounds {
 public:
  FirstBounds(const Space& space, answer::Sites& sites,
              const std::map<LayerCostsKey, LayerCosts>& layer_costs);

  // step_ps is 0 if the plan needs more bytes than `room`.
  Bound of(const PlanShape& core, std::int64_t room = std::numeric_limits<std::int64_t>::max());
  // The same with other layer costs than those of the core's key.
  std::int64_t bytes(const PlanShape& core, const LayerCosts& layer_costs);
  // The same sums in the order of the schedule, picoseconds; 0 if the order is not known yet.
  std::int64_t step_of_order(const PlanShape& core);
  // Pass times of every part of the model; and with unsplit backward passes.
  std::vector<PassTimes> passes_of_parts(const PlanShape& core);
  std::vector<PassTimes> whole_passes_of_parts(const PlanShape& core);

 private:
  std::vector<PassTimes> passes_of_parts(const PlanShape& core, const LayerCosts& layer_costs);
  std::vector<PassTimes> least_passes_of_parts(const PlanShape& core);
  const std::vector<int>& layers(const PlanShape& core);  // of each part
  const std::vector<Moment>& moments(const PlanShape& core);
  std::int64_t traffic_of_shards(const PlanShape& core);
  struct Traffic {
    std::int64_t gather = 0, reduce = 0;  // of a layer, picoseconds
  };
  Traffic traffic_of_layer(const PlanShape& core);
  std::int64_t state_bytes(const PlanShape& core, std::int64_t parameters) const;
  struct ChunkBytes;
  ChunkBytes chunk_bytes(const PlanShape& core, const LayerCosts& layer_costs, int chunk);

  const Space& space_;
  answer::Sites& sites_;
  const std::map<LayerCostsKey, LayerCosts>& layer_costs_;
  // By base: the first base with the same layers and the same pipeline. Both share the cache.
  std::vector<int> pipeline_class_;
  std::map<std::tuple<int, int, int, int, Split>, std::vector<int>> layers_;
  std::map<std::tuple<int, int, int, int, int>, std::vector<Moment>> moments_;
  // By site, tp, cp, pp, and the bytes of a gather and of a reduction.
  std::map<std::tuple<const answer::Site*, int, int, int, std::int64_t, std::int64_t>, Traffic>
      traffic_;
};

// The second and the third bound. The method room() returns the smallest capacity minus bytes over
// all ranks. Negative: the plan runs out of memory with any allocator. step_ps 0: unknown.
struct SecondBound {
  std::int64_t step_ps = 0;
  std::int64_t bytes = 0, capacity = 0;
  std::int64_t room() const { return capacity - bytes; }
};
// REQUIRES: `plan` is a plan of `core` and can run on the site.
SecondBound second_bound(FirstBounds& first, const PlanShape& core, const program::Plan& plan,
                         answer::Site& site);
SecondBound third_bound(const answer::CheckedPlan& plan);

using engine::bytes_of_tensors;
using engine::bytes_until_backward;

}  // namespace sim::planner
