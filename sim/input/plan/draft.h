// draft.h — loads a plan that may break rules of program::problems, as the start of a search.
//
// `rehearse plan` (study/plan) reads the space of its search with it. All other errors are the same
// as those of load_plan.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/plan.h"

namespace sim::input {

// Same as load_plan, without the check of program::problems.
Result<PlanFile> load_draft(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace sim::input
