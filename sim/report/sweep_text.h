// sweep_text.h — what a sweep says at its end: how many points fit, which are best, why the others
// do not run, and how the closed-form 80 % rule compares with the replay.
#pragma once

#include <string>
#include <vector>

#include "sim/report/json.h"

namespace sim::report {

// `records` are those of record.h, in the order of the grid.
std::string sweep_text(const std::vector<Json>& records);

// The same as numbers: counts by outcome, the rule's two-by-two table.
Json sweep_json(const std::vector<Json>& records);

}  // namespace sim::report
