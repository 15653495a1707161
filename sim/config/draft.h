// draft.h — a plan that need not run: what a search begins from.
#pragma once

#include <string>
#include <vector>

#include "sim/config/plan.h"

namespace sim::config {

// As load_plan, but what workload::problems says of the plan is left to the caller.
Result<PlanFile> load_draft(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace sim::config
