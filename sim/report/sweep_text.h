// sweep_text.h — what a sweep says as a whole: how many points fit, the best of each world size,
// why the others do not run, and the closed-form estimate beside the replay; as text, as JSON, and
// as a document with charts over all points.
#pragma once

#include <string>
#include <vector>

#include "sim/report/json.h"

namespace sim::report {

struct Document;

// `records` as record.h makes them, in the order of the grid.
std::string sweep_text(const std::vector<Json>& records);
Json sweep_json(const std::vector<Json>& records);
Document sweep_document(const std::string& name, const std::vector<Json>& records);

}  // namespace sim::report
