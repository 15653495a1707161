// context_plan.h — how the context-parallel ranks of a plan share its sequences: the catalog's row
// (job/context/context.h) and the shape that a rank's attention gives it.
#pragma once

#include <vector>

#include "sim/job/context/context.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// REQUIRES: the name is known.
const context::Method& context_method(const Plan& plan);
// The shape of one microbatch's attention on a tensor-parallel rank.
// REQUIRES: tp divides the heads, cp the sequence.
context::Shape context_shape(const Plan& plan);

// Neighbours exchange heads, and those that stand alike go round a ring.
bool has_two_levels(const Plan& plan);

// Every rule of context parallelism that the plan breaks, each with the values that would do.
Diagnostics context_problems(const Plan& plan);

}  // namespace sim::program
