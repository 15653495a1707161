#include "sim/input/text/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "sim/base/quantity.h"
#include "sim/base/real_number.h"
#include "sim/base/text.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

using google::protobuf::FieldDescriptor;
using rehearse::v1::Rule;

bool is_whole(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
}

// "between 1 and 1048576"; "" if no rule bounds the field.
std::string range_text(const FieldDescriptor& field) {
  const Rule& rule = rule_of(field);
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  const auto text = [&](double number) {
    return whole ? fmt::format("{:.0f}", number) : shortest(number);
  };
  if (rule.has_min() && rule.has_max())
    return fmt::format("between {} and {}", text(rule.min()), text(rule.max()));
  if (rule.has_min()) return "at least " + text(rule.min());
  return rule.has_max() ? "at most " + text(rule.max()) : "";
}

constexpr std::string_view digits = "0123456789";

// True for a number of the text format, also if it is out of range or has leading zeros.
bool is_number(std::string_view text, bool whole) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with("0x") || text.starts_with("0X"))
    return text.size() > 2 &&
           text.substr(2).find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  if (whole) return !text.empty() && text.find_first_not_of(digits) == text.npos;
  if (text.ends_with('f') || text.ends_with('F')) text.remove_suffix(1);
  if (text.empty() || (text[0] != '.' && digits.find(text[0]) == digits.npos)) return false;
  double number = 0;  // of any size
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

// "8192" of "8_192", "8,192" or "8 192"; "" of anything else.
std::string without_separators(std::string_view text) {
  const std::size_t at = text.find_first_of("_,' ");
  if (at == text.npos) return "";
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != text[at]) {
      plain += text[i];
      continue;
    }
    const std::size_t end = std::min(text.find(text[at], i + 1), text.size());
    if (end - i != 4) return "";
  }
  return plain.find_first_not_of(digits) == plain.npos ? plain : "";
}

// Some fields have their unit in their name. Returns the factor of a unit that somebody wrote after
// the number: 1000 for "kW" of `power_w`. 0: the unit does not fit the field.
double scale_of(const FieldDescriptor& field, std::string_view unit) {
  struct Scale {
    std::string_view of, unit;
    double factor;
  };
  constexpr std::array scales{
      Scale{"_w", "W", 1},       Scale{"_w", "kW", 1000},      Scale{"_minutes", "min", 1},
      Scale{"_minutes", "m", 1}, Scale{"_minutes", "h", 60},   Scale{"_minutes", "s", 1 / 60.0},
      Scale{"_hours", "h", 1},   Scale{"_hours", "d", 24},     Scale{"_hour", "/h", 1},
      Scale{"_seconds", "s", 1}, Scale{"_seconds", "min", 60}, Scale{"_seconds", "m", 60},
  };
  for (const Scale& scale : scales)
    if (field.name().ends_with(scale.of) && unit == scale.unit) return scale.factor;
  return 0;
}

// The suggestion for a text that is no number: "; write 8192".
std::string instead_of(const FieldDescriptor& field, std::string_view text, bool whole) {
  if (const std::string plain = without_separators(text); !plain.empty()) return "; write " + plain;
  if (text.size() > 2 && text.starts_with('"') && text.ends_with('"') &&
      is_number(text.substr(1, text.size() - 2), whole))
    return fmt::format("; write {}", text.substr(1, text.size() - 2));
  const std::size_t signed_from = text.starts_with('-') ? 1 : 0;
  const std::size_t end = std::min(text.find_first_not_of("0123456789.", signed_from), text.size());
  const std::string_view rest = text.substr(end);
  const std::optional<double> number = finite_number(text.substr(0, end));
  if (const std::string hint = thousands_hint(text); whole && !hint.empty()) return hint;
  if (const std::optional<double> all = finite_number(text);
      whole && all && *all == std::floor(*all) && std::abs(*all) < 1e15)
    return fmt::format("; write {:.0f}", *all);
  if (const double scale = scale_of(field, rest); number && scale > 0)
    return fmt::format("; write {}", shortest(*number * scale));
  const Rule& rule = rule_of(field);
  if (!whole && rule.max() == 1 && std::holds_alternative<Bandwidth>(parse_bandwidth(text)))
    return fmt::format("; it is a share of the part's own bandwidth, {}: 0.5 is half",
                       range_text(field));
  if (!whole && number && rest == "%") return "; write " + shortest(*number / 100);
  std::string words;
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  if (std::ranges::any_of(text, [](char c) { return (c & 0x80) != 0; }))
    words = ", in the digits 0 to 9";
  else if (number && !rest.empty() && (letter(rest[0]) || rest == "%") && !finite_number(text))
    words = ", without a unit";
  const std::string range = range_text(field);
  if (range.empty()) return words.empty() ? "" : "; write it" + words.substr(1);
  return fmt::format("; write one {}{}", range, words);
}

}  // namespace

std::string thousands_hint(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = finite_number(text.substr(0, end));
  const std::string_view rest = text.substr(end);
  const bool thousand = rest == "k" || rest == "K";
  const double scale = thousand ? 1024 : rest == "M" ? 1024 * 1024 : 0;
  if (!number || scale == 0 || *number >= double{std::int64_t{1} << 40} ||
      *number * scale != std::floor(*number * scale))
    return "";
  return fmt::format("; write {:.0f} or {:.0f}", *number * scale,
                     *number * (thousand ? 1000 : 1'000'000));
}

std::string beyond_problem(const FieldDescriptor& field, std::string_view number) {
  std::string range = range_text(field);
  const std::int64_t most = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32
                                ? std::numeric_limits<std::int32_t>::max()
                                : std::numeric_limits<std::int64_t>::max();
  if (range.empty()) range = fmt::format("at most {}", most);
  return fmt::format("'{}' is {}; it must be {}", field.name(), number.substr(0, 40), range);
}

std::string number_problem(const FieldDescriptor& field, std::string_view text) {
  const bool whole = is_whole(field);
  const bool is_real = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty() || (!whole && !is_real)) return "";
  const std::size_t first = text.find_first_not_of('-');
  const bool zero = first < text.size() && text[first] == '0';
  if (whole && zero && first + 1 < text.size() && digits.find(text[first + 1]) != digits.npos &&
      is_number(text, whole))
    return fmt::format(
        "'{}' has leading zeros, which mean octal numbers elsewhere; write it without them",
        field.name());
  if (is_number(text, whole)) return "";
  return fmt::format("'{}' is a {} number, got '{}'{}", field.name(), whole ? "whole" : "finite",
                     text.substr(0, 40), instead_of(field, text, whole));
}

}  // namespace sim::input
