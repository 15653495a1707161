// eager.h — the optimizer as PyTorch's own operators, tensor by tensor, for plans without a fused
// optimizer (StackPlan::fused_optimizer).
//
// [mosaicml/composer 0.16 optim/decoupled_weight_decay.py]
#pragma once

#include <cstdint>

#include "sim/program/ir/emit.h"

namespace sim::program {

// Adam as PyTorch's operators on one tensor of `elements` fp32 numbers.
void adam_by_operators(Emitter& e, std::int64_t elements);

}  // namespace sim::program
