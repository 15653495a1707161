// quantity.h — parses quantities as people write them in input files: a number and a unit.
//
// Readers of input files and options call it. "400Gb/s" is bits, "450GB/s" is bytes. GB is 10^9
// bytes, GiB is 2^30 bytes. A bare number is an error; its message shows the number with units.
// Only counts take a bare number. Negative and non-finite values are refused.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "sim/base/units.h"

namespace sim {

// The value, or an error message that names a valid spelling.
template <class T>
using Parsed = std::variant<T, std::string>;

Parsed<Bytes> parse_bytes(std::string_view text);          // "94GB", "40GiB", "512KiB", "64B"
Parsed<Bandwidth> parse_bandwidth(std::string_view text);  // "400Gb/s", "2.4TB/s", "25GB/s"
Parsed<Duration> parse_duration(std::string_view text);    // "1.5us", "3ms", "200ns", "1s"
Parsed<double> parse_span(std::string_view text);       // "90s", "30min", "3.1h", "54d" -> seconds
Parsed<double> parse_flop_rate(std::string_view text);  // "989.4TFLOP/s" -> FLOP per second
Parsed<double> parse_frequency(std::string_view text);  // "1980MHz" -> Hz
// A count such as tokens of a training, above zero: "300B", "1.5T", "2e12". K is 10^3, M 10^6,
// B 10^9, T 10^12, also in lower case. A bare number is one.
Parsed<double> parse_count(std::string_view text);

}  // namespace sim
