// balance.h — which layers each part of the model has, so that no stage has much more to do than
// the others: a dynamic programme over contiguous parts with the times of the plan's own blocks,
// under what fits into memory by the replay.
//
//     slowest(parts, layers) = min over n of max(slowest(parts - 1, layers - n), time of the last
//                              part with n layers)
//
// A layer takes longer on the stages of a slower GPU, and as long as on the slowest of those that
// data parallelism puts there.
//
// Of all splits as fast as the best one that whose parts are most alike (least sum of squares).
//
// A stage of several chunks may have more to do than others although no part of it has: for these
// layers are also dealt out one by one, each to the stage that has least to do with it, which is
// the least there can be where all layers take as long.
//
// Li et al., "Integrated Hardware Architecture and Device Placement Search" (PHAZE,
// arXiv:2407.13143), section 4: contiguous layers on the devices of a pipeline.
#pragma once

#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// What the parts of a model take for one microbatch, forward and back, in seconds.
struct PartCosts {
  std::vector<double> layers;    // of the model's
  std::vector<double> ends;      // of each part, beside its layers
  std::vector<double> pace;      // how many times as long a layer takes on each part; empty: once
  std::vector<int> least, most;  // layers that each part may have
};

// Layers of each part; empty: the bounds leave no split. REQUIRES: ends, least and most are as
// many, at least one.
std::vector<int> balance(const PartCosts& costs);
// The same by what the parts of a stage take together; layers count as equal. `stages`: of parts.
std::vector<int> balance_stages(const PartCosts& costs, const std::vector<int>& stages);

// The plan with layers_of_parts where it asks for balanced layers, else as it is: of the balanced
// splits, the padded, the even and the weighted one that which the replay says is the fastest of
// those that fit.
// REQUIRES: problems(plan, site) is empty.
program::Plan balanced(const program::Plan& plan, Site& site);

}  // namespace sim::answer
