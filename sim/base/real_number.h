// real_number.h — a text that says one number and nothing else, as cells of tables do.
#pragma once

#include <optional>
#include <string_view>

namespace sim {

// The number that the whole text says, which may be infinite or not a number: "1e3", "inf", "nan".
std::optional<double> real_number(std::string_view text);

// The same if it is finite.
std::optional<double> finite_number(std::string_view text);

}  // namespace sim
