// draft.h — a plan that need not run: what a search begins from.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/plan.h"

namespace sim::input {

// As load_plan, but what program::problems says of the plan is left to the caller.
Result<PlanFile> load_draft(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace sim::input
