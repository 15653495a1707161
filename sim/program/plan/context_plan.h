// context_plan.h — context parallelism of a plan: its method in the catalog (job/context/context.h)
// and the shape of a rank's attention.
#pragma once

#include <vector>

#include "sim/job/context/context.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// REQUIRES: the name is known.
const context::Method& context_method(const Plan& plan);
// The shape of one microbatch's attention on a tensor-parallel rank.
// REQUIRES: tp divides the heads, cp the sequence.
context::AttentionShape context_shape(const Plan& plan);

// Neighbours exchange heads; ranks with the same place in their neighbourhood form a ring.
bool has_two_levels(const Plan& plan);

}  // namespace sim::program
