// needs.h — settings that say how something is done that the plan does not do: each would be taken
// in silence. What a framework sets by itself is no such setting.
#pragma once

#include <vector>

#include "sim/config/resolve.h"

namespace sim::config {

// REQUIRES: `plan` is what `given` becomes, with the network that is trained.
std::vector<PlanProblem> needs(const rehearse::v1::Plan& given, const workload::Plan& plan);

}  // namespace sim::config
