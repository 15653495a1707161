#include "sim/base/real_number.h"

#include <charconv>
#include <cmath>

namespace sim {

std::optional<double> real_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> finite_number(std::string_view text) {
  const std::optional<double> value = real_number(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace sim
