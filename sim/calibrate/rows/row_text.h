// row_text.h — reads the cells of a table of measured runs: numbers with a unit or a fraction, and
// the JSON of the column `extra`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "sim/base/ascii.h"
#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

// The whole number at the start of a cell: "80GB", "1024.0" and "81559 MiB" have one, "" has none.
std::optional<std::int64_t> leading_number(std::string_view text);
// The finite number in a cell that contains only a number.
std::optional<double> number(std::string_view text);

// The JSON object of the column `extra`; an empty object if it is blank or not an object.
nlohmann::json extra(const Row& row);
// A value of it as a cell would have it: "True" is "true".
std::string value_text(const nlohmann::json& value);

// The largest count that a row may state; larger ones are errors of the table.
constexpr std::int64_t count_max = 1 << 24;
// A count of at least 1; 0 if the column is absent or has none.
int degree(const Row& row, const char* column);

}  // namespace sim::calibrate
