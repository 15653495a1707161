// row_text.h — how the cells of a table of measured runs are read: numbers that may carry a unit or
// a fraction, words inside of remarks, the JSON of the column `extra`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "sim/base/ascii.h"
#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

// The whole number at the start of a cell: "80GB" and "1024.0" and "81559 MiB" have one, "" has
// not.
std::optional<std::int64_t> leading_number(std::string_view text);
// A cell that is a number and nothing else.
std::optional<double> number(std::string_view text);

// The column `extra`, an empty object when it is blank or not an object.
nlohmann::json extra(const Row& row);
// True for true, 1, "1" and "True".
bool flag(const nlohmann::json& extra, const char* key);

// The largest count that a row is believed.
constexpr std::int64_t count_max = 1 << 24;
// A count of at least one; 0 where the column has none.
int degree(const Row& row, const char* column);

// Adds the experts of a row to what its columns gave; "" or why it cannot. Rows without: nothing.
std::string read_experts(const Row& row, const nlohmann::json& extra, RowPlan& out);
// The GPUs of a row with experts that states none; 0: not known. REQUIRES: other degrees are read.
int gpus_of_experts(const Row& row, const program::Plan& plan, RowPlan& out);
// What its recipe adds, behind all that is read for every row but the pipeline.
void finish_experts(const Row& row, RowPlan& out);

}  // namespace sim::calibrate
