#include "sim/output/csv.h"

#include <charconv>

namespace sim::output {

namespace {

// Spreadsheets run a cell that begins with one of these characters as a formula, unless it is a
// number. Source: OWASP, "CSV Injection".
bool is_formula(std::string_view text) {
  if (text.find_first_of("=+-@\t\r") != 0) return false;
  double number = 0;
  const std::string_view digits = text[0] == '+' ? text.substr(1) : text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error != std::errc{} || end != digits.data() + digits.size();
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (is_formula(text)) return csv_field("'" + std::string(text));
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i]);
  }
  return line + "\n";
}

}  // namespace sim::output
