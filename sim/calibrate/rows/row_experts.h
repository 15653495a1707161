// row_experts.h — what rows with experts take from the recipes of a framework.
#pragma once

#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

inline bool is_bridge(const Row& row) {
  return starts_with(cell(row, "framework"), "Megatron-Bridge");
}

// Where the recipe of the row's container contradicts the row's own columns.
void read_bridge_degrees(const Row& row, RowPlan& out);
// All else that the recipe says. REQUIRES: the plan's degrees and network stand.
void read_bridge_recipe(const Row& row, RowPlan& out);

}  // namespace sim::calibrate
