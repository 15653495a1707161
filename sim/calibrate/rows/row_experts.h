// row_experts.h — settings of rows with experts that come from the recipes of a framework.
// row_experts.cpp calls it while plan_of() builds the plan.
#pragma once

#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

inline bool is_bridge(const Row& row) {
  return starts_with(cell(row, "framework"), "Megatron-Bridge");
}

// Corrects the row's degrees where the recipe of its container contradicts them.
void read_bridge_degrees(const Row& row, RowPlan& out);
// Applies the remaining settings of the recipe. REQUIRES: degrees and architecture of the plan are
// set.
void read_bridge_recipe(const Row& row, RowPlan& out);

}  // namespace sim::calibrate
