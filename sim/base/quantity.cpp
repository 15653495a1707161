#include "sim/base/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <vector>

namespace sim {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr Unit byte_units[] = {{"B", 1.0},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", 1024.0},
                               {"MiB", 1024.0 * 1024},
                               {"GiB", 1024.0 * 1024 * 1024},
                               {"TiB", 1024.0 * 1024 * 1024 * 1024}};
constexpr Unit bandwidth_units[] = {
    {"B/s", 1.0},    {"KB/s", 1e3},   {"MB/s", 1e6},   {"GB/s", 1e9},   {"TB/s", 1e12},
    {"Kb/s", 125.0}, {"Mb/s", 125e3}, {"Gb/s", 125e6}, {"Tb/s", 125e9}, {"GiB/s", 1073741824.0}};
constexpr Unit duration_units[] = {
    {"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
constexpr Unit span_units[] = {
    {"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}};
// Other spellings of a span's units, which people and batch systems write.
constexpr Unit span_spellings[] = {{"sec", 1.0},      {"seconds", 1.0},  {"m", 60.0},
                                   {"mins", 60.0},    {"minute", 60.0},  {"minutes", 60.0},
                                   {"hr", 3600.0},    {"hours", 3600.0}, {"hour", 3600.0},
                                   {"days", 86400.0}, {"day", 86400.0}};
constexpr Unit flop_units[] = {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit count_units[] = {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12},
                                {"k", 1e3}, {"m", 1e6}, {"b", 1e9}, {"t", 1e12}};
constexpr Unit frequency_units[] = {{"Hz", 1.0}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};

std::string examples(std::string_view number, std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) {
    text += fmt::format("{}\"{}{}\"", text.empty() ? "" : ", ", number, unit.name);
  }
  return text;
}

Parsed<double> parse(std::string_view what, std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value))
    return fmt::format("{} \"{}\" does not start with a number; write for example {}", what, text,
                       examples("1", units));
  const std::string_view number = text.substr(0, static_cast<std::size_t>(end - text.data()));
  std::string_view name = text.substr(number.size());
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (value < 0) return fmt::format("{} \"{}\" is negative; it must be zero or more", what, text);
  if (name.empty())
    return fmt::format("{} \"{}\" has no unit; write one of {}", what, text,
                       examples(number, units));
  for (const Unit& unit : units)
    if (unit.name == name) return value * unit.scale;
  return fmt::format("{} \"{}\" has the unknown unit \"{}\"; write one of {}", what, text, name,
                     examples(number, units));
}

template <class T>
Parsed<T> whole(std::string_view what, std::string_view text, Parsed<double> parsed, double scale) {
  if (const auto* message = std::get_if<std::string>(&parsed)) return *message;
  const double value = std::get<double>(parsed) * scale;
  if (value > 9.0e18) return fmt::format("{} \"{}\" is too large", what, text);
  return T{std::llround(value)};
}

}  // namespace

Parsed<Bytes> parse_bytes(std::string_view text) {
  return whole<Bytes>("size", text, parse("size", text, byte_units), 1.0);
}

Parsed<Bandwidth> parse_bandwidth(std::string_view text) {
  return whole<Bandwidth>("bandwidth", text, parse("bandwidth", text, bandwidth_units), 1.0);
}

Parsed<Duration> parse_duration(std::string_view text) {
  return whole<Duration>("time", text, parse("time", text, duration_units), 1e12);
}

Parsed<double> parse_span(std::string_view text) {
  const Parsed<double> other = parse("time", text, span_spellings);
  return std::holds_alternative<double>(other) ? other : parse("time", text, span_units);
}

Parsed<double> parse_flop_rate(std::string_view text) {
  return parse("compute rate", text, flop_units);
}

Parsed<double> parse_count(std::string_view text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc{} && std::isfinite(value) && value > 0) {
    if (name.empty()) return value;
    for (const Unit& unit : count_units)
      if (unit.name == name) return value * unit.scale;
  }
  return fmt::format("'{}' is no number above 0; write for example 300B, 1.5T or 2e12", text);
}

Parsed<double> parse_frequency(std::string_view text) {
  return parse("frequency", text, frequency_units);
}

}  // namespace sim
