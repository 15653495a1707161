// grid_rows.h — the rows of a `vary` block: every combination of its values, parsed and labelled.
#pragma once

#include <string>
#include <vector>

#include "sim/input/schema/grid.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

struct AxisRow {
  rehearse::v1::Plan plan;  // only the axis' fields are set
  std::string label;        // "tp4-cp1"
};

struct Axis {
  std::vector<std::string> fields;  // of plan.proto
  std::vector<AxisRow> rows;        // distinct
};

// Rows of one block are kept; several blocks multiply without being built.
constexpr std::int64_t max_rows = 100'000;

// Appends to `problems` what is wrong.
Axis read_axis(const rehearse::v1::Vary& vary, const Source& source, Diagnostics& problems);

}  // namespace sim::input
