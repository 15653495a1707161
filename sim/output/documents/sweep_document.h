// sweep_document.h — what a sweep says as a whole: how many points fit, the best of each world
// size, why the others do not run, and the closed-form estimate beside the replay; as text and
// JSON, and as a page.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::output {

// `records` as record.h makes them, in the order of the grid.
Document sweep_answer(const std::vector<Json>& records);
// With charts over all points.
Document sweep_document(const std::string& name, const std::vector<Json>& records);

}  // namespace sim::output
