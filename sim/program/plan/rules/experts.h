// experts.h — the rules of mixtures of experts and of latent attention.
#pragma once

#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// Every rule of experts and latent attention that the plan breaks. REQUIRES: the plan's numbers are
// within their ranges.
Diagnostics expert_problems(const Plan& plan);

}  // namespace sim::program
