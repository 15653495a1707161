// draft.h — loads a plan that may break rules of program/plan/rules, as the start of a search.
//
// `rehearse plan` (study/plan) reads the space of its search with it, and `rehearse validate` the
// plan of each row of a table (calibrate/rows). All other errors are the same
// as those of load_plan.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/plan.h"

namespace sim::input {

using DraftPlan = LoadedPlan<program::Plan>;

// Same as load_plan, without the rules of the plan.
Result<DraftPlan> load_draft(const std::string& path, const std::vector<std::string>& overrides);

// The same for the text of a plan file. `path`: the file that diagnostics name; it need not exist.
Result<DraftPlan> read_draft(const std::string& text, const std::string& path);

}  // namespace sim::input
