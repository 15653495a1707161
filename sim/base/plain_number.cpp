#include "sim/base/plain_number.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace sim {

std::string plain_number(double value, int digits) {
  const std::string general = fmt::format("{:.{}g}", value, digits);
  const double rounded = std::strtod(general.c_str(), nullptr);
  if (!std::isfinite(value) || std::abs(rounded) < 1000) return general;
  const std::string plain =
      general.find('e') == std::string::npos ? general : fmt::format("{:.0f}", rounded);
  const std::size_t whole = plain.find('.') == std::string::npos ? plain.size() : plain.find('.');
  std::string text;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool thousands = i > 0 && i < whole && (whole - i) % 3 == 0 && plain[i - 1] != '-';
    if (thousands) text += ',';
    text += plain[i];
  }
  return text;
}

}  // namespace sim
