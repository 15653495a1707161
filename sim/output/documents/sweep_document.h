// sweep_document.h — the document of a sweep: how many points fit, the best per world size, reasons
// of the others, and the closed-form estimate against the replay.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::output {

// `records` have the form of record.h and are in the order of the grid.
// `front`: with the points that no other beats in time and memory.
Document sweep_answer(const std::vector<Json>& records, bool front = false);
// The same with charts over all points.
Document sweep_document(const std::string& name, const std::vector<Json>& records);

}  // namespace sim::output
