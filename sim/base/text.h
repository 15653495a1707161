// text.h — what every message needs: the nearest valid name, and numbers as people read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace sim {

// Levenshtein distance: insertions, deletions and substitutions.
int edit_distance(std::string_view a, std::string_view b);

// The name nearest to `given`, or "" when none is within half of its length.
std::string nearest(std::string_view given, std::span<const std::string> names);

// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view given, std::span<const std::string> names);

// "1 row", "2 rows".
std::string counted(std::int64_t number, std::string_view one);

// "8184 or 8192": the multiples of `step` next to `value`, from the first one on.
std::string nearest_multiples(std::int64_t value, std::int64_t step);

// "a, b and c", with the word that is given before the last one.
std::string listed(std::span<const std::string> names, std::string_view word);

// Shortest text that reads back to the same double, never in a locale.
std::string shortest(double value);

// "12.34 GiB", "544.0 MiB", "512 B".
std::string human(Bytes bytes);

// "12.3 s", "45.6 ms", "7.8 us".
std::string human(Duration duration);

}  // namespace sim
