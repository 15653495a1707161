// text.h — text that messages need: the nearest valid name, lists, numbers for people to read.
//
// Every room calls it for messages. The results never depend on the locale.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace sim {

// Levenshtein distance: the least number of insertions, deletions and substitutions.
int edit_distance(std::string_view a, std::string_view b);

// The name with the least edit distance to `given`; the first of equals. "" if every distance is
// more than half of the length of `given`.
std::string nearest(std::string_view given, std::span<const std::string> names);

// "; did you mean 'x'?" with the nearest name, or "" if there is none.
std::string did_you_mean(std::string_view given, std::span<const std::string> names);

// A number and its noun: "1 row", "2 rows".
std::string counted(std::int64_t number, std::string_view one);

// The multiples of `step` below and above `value`: "8184 or 8192". Below the first multiple there
// is only one: "8".
std::string nearest_multiples(std::int64_t value, std::int64_t step);

// "a, b and c"; `word` ("and", "or") comes before the last name.
std::string listed(std::span<const std::string> names, std::string_view word);

// The shortest text that reads back as the same double.
std::string shortest(double value);

// Bytes in the largest binary unit that fits: "12.34 GiB", "544.0 MiB", "512 B".
std::string human(Bytes bytes);

// A time with two decimals in s, ms or us: "12.30 s", "45.60 ms", "7.80 us".
std::string human(Duration duration);

}  // namespace sim
