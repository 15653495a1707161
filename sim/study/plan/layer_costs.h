// layer_costs.h — what the passes of a stage are made of, from a small program of the same layers:
// times and bytes of the ends of the model and of one layer. Bounds (bounds.h) add them up for
// stages and schedules without writing their programs.
//
// A pass is timed with a CPU and a network that never make it wait: kernels one after another, and
// the tensor- and
// context-parallel collectives that the compute stream waits for. Whatever else happens in a
// replay, a pass takes its compute stream at least that long.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

// Picoseconds of the compute stream.
struct PassTimes {
  std::int64_t forward = 0, backward = 0, weight = 0;
};

struct LayerCosts {
  PassTimes first, last;                         // in front of the first layer, behind the last one
  PassTimes kept, again;                         // a layer; a layer whose forward pass runs again
  std::int64_t first_bytes = 0, last_bytes = 0;  // held from forward to backward by a microbatch
  std::int64_t kept_bytes = 0, again_bytes = 0;  // ... for a layer
  std::int64_t layer_parameters = 0, first_parameters = 0, last_parameters = 0;  // of a rank
};

// What decides them: base, tp, cp, micro_batch, recomputed modules, whether backward is split.
using LayerCostsKey = std::tuple<int, int, int, int, int, bool>;
LayerCostsKey layer_costs_key(const Space& space, const PlanShape& core, bool splits);
LayerCostsKey layer_costs_key(const Space& space, const PlanShape& core);
// All that the bounds of a core ask for: a schedule that splits some of its passes has both kinds.
std::vector<LayerCostsKey> layer_costs_keys(const Space& space, const PlanShape& core);

// Zeros where the small program breaks a rule that the plan does not: a bound still.
LayerCosts make_layer_costs(const Space& space, const LayerCostsKey& key, answer::Site& site);

}  // namespace sim::planner
