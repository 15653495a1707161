// attention_alone.h — a core of attention by itself, forward, call after call: what benchmarks of
// context parallelism time.
#pragma once

#include "sim/job/context/context.h"
#include "sim/program/build/build.h"

namespace sim::program {

// A job whose steps are `calls` calls of the plan's core on tensors that are there, without
// autograd. `order`: which tokens a rank holds, in a context of yunchang's (usp).
// REQUIRES: calls > 0.
Job attention_alone(const ValidPlan& plan, const Environment& environment, context::TokenOrder order,
                    int calls);

}  // namespace sim::program
