// attention_alone.h — the forward pass of an attention core, call after call, as benchmarks of
// context parallelism time it.
#pragma once

#include "sim/job/context/context.h"
#include "sim/program/build/build.h"

namespace sim::program {

// A job whose steps run `calls` forward passes of the plan's attention core on existing tensors,
// without autograd. `order`: the tokens of each rank in yunchang's USP contexts. REQUIRES:
// calls > 0.
Job attention_alone(const ValidPlan& plan, const Environment& environment,
                    context::TokenOrder order, int calls);

}  // namespace sim::program
