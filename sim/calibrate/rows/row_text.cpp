#include "sim/calibrate/rows/row_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/base/real_number.h"

namespace sim::calibrate {

namespace {
constexpr std::size_t extra_bytes_max = 1 << 16;
}  // namespace

const std::string& cell(const Row& row, std::string_view column) {
  static const std::string blank;
  const auto found = row.find(column);
  return found == row.end() ? blank : found->second;
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<double> number(std::string_view text) {
  return finite_number(text);
}

nlohmann::json extra(const Row& row) {
  const std::string& text = cell(row, "extra");
  if (text.empty() || text.size() > extra_bytes_max) return nlohmann::json::object();
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    if (text == "True" || text == "False") text.front() = lower(text.front());
    return text;
  }
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

int degree(const Row& row, const char* column) {
  const std::int64_t value = leading_number(cell(row, column)).value_or(0);
  return value >= 1 && value <= count_max ? static_cast<int>(value) : 0;
}

}  // namespace sim::calibrate
