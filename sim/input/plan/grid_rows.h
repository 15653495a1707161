// grid_rows.h — expands a `vary` block of a grid: all combinations of its values, with labels.
//
// load_grid (grid.h) calls read_axis once for each block.
#pragma once

#include <string>
#include <vector>

#include "sim/input/schema/grid.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

struct AxisRow {
  rehearse::v1::Plan plan;  // only the fields of this axis are set
  std::string label;        // "tp4-cp1"
};

struct Axis {
  std::vector<std::string> fields;  // fields of plan.proto
  std::vector<AxisRow> rows;        // distinct
};

// Limit of one block. All rows of a block are in memory; the product of several blocks is not.
constexpr std::int64_t max_rows = 100'000;

// The rows of a block. Errors are appended to `problems`.
Axis read_axis(const rehearse::v1::Vary& vary, const Source& source, Diagnostics& problems);

}  // namespace sim::input
