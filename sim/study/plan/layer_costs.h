// layer_costs.h — times and bytes of one layer and of both ends of the model, measured in a small
// program with the same layers. Bounds (bounds.h) add them up for stages and schedules without
// building programs.
//
// The CPU and the network never delay these passes: kernels run one after another, with the
// tensor-parallel and context-parallel collectives that the compute stream waits for. In any replay
// a pass takes at least this time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

// Picoseconds on the compute stream.
struct PassTimes {
  std::int64_t forward = 0, backward = 0, weight = 0;
};

struct LayerCosts {
  PassTimes first, last;                         // before the first layer; after the last one
  PassTimes kept, again;                         // a layer; a recomputed layer
  std::int64_t first_bytes = 0, last_bytes = 0;  // per microbatch, held from forward to backward
  std::int64_t kept_bytes = 0, again_bytes = 0;  // the same for a layer
  std::int64_t layer_parameters = 0, first_parameters = 0, last_parameters = 0;  // of a rank
};

// The values that layer costs depend on: base (an index of Space::bases: the settings that are not
// varied), tp, cp, micro_batch, recomputed modules, whether backward is split.
using LayerCostsKey = std::tuple<int, int, int, int, int, bool>;
LayerCostsKey layer_costs_key(const Space& space, const PlanShape& core, bool splits);
LayerCostsKey layer_costs_key(const Space& space, const PlanShape& core);
// All keys that the bounds of a core need. A schedule that splits some backward passes needs both
// kinds.
std::vector<LayerCostsKey> layer_costs_keys(const Space& space, const PlanShape& core);

// Layer costs of a key. They are 0, which is still a bound, if the small program breaks a rule.
LayerCosts make_layer_costs(const Space& space, const LayerCostsKey& key, answer::Site& site);

struct LayerCostsCalls {
  int workers = 1;
  std::function<void(const std::string& why)> failed;  // a key's costs stay 0
  std::function<bool()> go_on;                         // false: stop
};
// Adds the layer costs of `keys` to `costs`, computed on all workers. False: stopped.
bool find_layer_costs(const Space& space, answer::Sites& sites,
                      const std::vector<LayerCostsKey>& keys, const LayerCostsCalls& calls,
                      std::map<LayerCostsKey, LayerCosts>& costs);

}  // namespace sim::planner
