#include "sim/input/text/rules.h"

#include <fmt/format.h>

#include <cassert>
#include <cstdint>
#include <cstring>

#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/input/text/number_text.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using rehearse::v1::Rule;

// Limits of a machine's quantities. A value outside has a wrong unit, and steps would exceed the
// clock of the replay (106 days).
template <class T>
struct Bounds {
  T least, most;
  std::string_view least_text, most_text;
};
constexpr Bounds<Bandwidth> bandwidths = {
    {10'000'000}, {1'000'000'000'000'000}, "10MB/s", "1000TB/s"};
constexpr Bounds<double> flop_rates = {1e11, 1e20, "0.1TFLOP/s", "100000PFLOP/s"};
constexpr Bounds<double> frequencies = {1e6, 1e12, "1MHz", "1000GHz"};
constexpr Bounds<Duration> durations = {{0}, {1'000'000'000'000}, "0s", "1s"};
constexpr Bounds<Bytes> sizes = {{0}, {std::int64_t{1} << 50}, "0B", "1024TiB"};

template <class T>
std::string quantity_text(const Parsed<T>& parsed, const Bounds<T>& bounds, const Rule& rule,
                          std::string_view text) {
  if (const auto* message = std::get_if<std::string>(&parsed)) return *message;
  const T value = std::get<T>(parsed);
  if (value == T{})
    return rule.may_be_zero() ? "" : fmt::format("\"{}\" is zero; it must be more", text);
  if (value < bounds.least)
    return fmt::format("\"{}\" is too little; the least is {}", text, bounds.least_text);
  if (value > bounds.most)
    return fmt::format("\"{}\" is too much; the most is {}", text, bounds.most_text);
  return "";
}

template <class T>
T value_or_zero(const std::string& text, Parsed<T> (*parse)(std::string_view)) {
  if (text.empty()) return T{};
  const Parsed<T> parsed = parse(text);
  assert(std::holds_alternative<T>(parsed));
  return std::get<T>(parsed);
}

// The element of a numeric field as a double. Exact within the rules' bounds (below 2^53).
double number(const Message& message, const FieldDescriptor& field, int index) {
  const auto* r = message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r->GetRepeatedInt32(message, &field, index) : r->GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(many ? r->GetRepeatedInt64(message, &field, index)
                                      : r->GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r->GetRepeatedDouble(message, &field, index) : r->GetDouble(message, &field);
    default:
      return 0;
  }
}

std::string range_problem(const FieldDescriptor& field, double value) {
  const Rule& rule = rule_of(field);
  const bool low = rule.has_min() && value < rule.min();
  const bool high = rule.has_max() && value > rule.max();
  if (!low && !high) return "";
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  return beyond_problem(field, whole ? fmt::format("{:.0f}", value) : shortest(value));
}

// More than an example, for a field with a value that is hard to find.
std::string advice(const FieldDescriptor& field) {
  // A launch script states no cluster.
  if (field.full_name() == "rehearse.v1.Plan.cluster") {
    const std::string& quoted = rule_of(field).example();
    return fmt::format(", or cluster={} on the command line", quoted.substr(1, quoted.size() - 2));
  }
  if (field.full_name() != "rehearse.v1.Gpu.profile") return "";
  return ". A GPU without measurements borrows the profile of the nearest architecture (`rehearse "
         "list profiles`): Volta v100, Ampere a100-80, Hopper and MI300 h100-80, Blackwell b200. "
         "Its peaks, bandwidth and memory are those of its own data sheet: bf16, "
         "memory_bandwidth, memory";
}

std::string missing(const Message& message, const FieldDescriptor& field) {
  const bool block = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  return fmt::format("'{}' needs the field '{}'; write for example {}{} {}{}",
                     message.GetDescriptor()->name(), field.name(), field.name(), block ? "" : ":",
                     rule_of(field).example(), advice(field));
}

std::string value_problem(const Message& message, const FieldDescriptor& field, int index) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING)
    return range_problem(field, number(message, field, index));
  const auto* reflection = message.GetReflection();
  std::string scratch;
  const std::string& text =
      field.is_repeated() ? reflection->GetRepeatedStringReference(message, &field, index, &scratch)
                          : reflection->GetStringReference(message, &field, &scratch);
  if (text.empty() && rule_of(field).required())
    return fmt::format("'{}' is empty; write for example {}", field.name(),
                       rule_of(field).example());
  return quantity_problem(field, text);
}

void check_field(const Source& source, const Message& message, const FieldDescriptor& field,
                 bool whole, Diagnostics& problems) {
  const auto* reflection = message.GetReflection();
  // proto3 does not store a plain 0 or "". The recorded place shows that the field was written.
  const bool present =
      !field.is_repeated() && (reflection->HasField(message, &field) ||
                               (!field.has_presence() && source.has(message, field.name())));
  const int count =
      field.is_repeated() ? reflection->FieldSize(message, &field) : (present ? 1 : 0);
  if (count == 0 && whole && rule_of(field).required())
    problems.push_back({source.where(message, field.name()), missing(message, field)});
  for (int i = 0; i < count; ++i)
    if (std::string problem = value_problem(message, field, i); !problem.empty())
      problems.push_back({source.where(message, field.name(), i), std::move(problem)});
}

void check_message(const Source& source, const Message& message, bool whole,
                   Diagnostics& problems) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& field = *descriptor->field(i);
    check_field(source, message, field, whole, problems);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const bool inside = whole && !rule_of(field).partial();
    if (field.is_repeated()) {
      for (int k = 0; k < reflection->FieldSize(message, &field); ++k)
        check_message(source, reflection->GetRepeatedMessage(message, &field, k), inside, problems);
    } else if (reflection->HasField(message, &field) || (inside && rule_of(field).required())) {
      // A block that is left out lacks all of its fields: one attempt tells all of them.
      check_message(source, reflection->GetMessage(message, &field), inside, problems);
    }
  }
}

}  // namespace

const Rule& rule_of(const FieldDescriptor& field) {
  return field.options().GetExtension(rehearse::v1::rule);
}

std::string quantity_problem(const FieldDescriptor& field, std::string_view text) {
  const Rule& rule = rule_of(field);
  std::string problem;
  switch (rule.unit()) {
    case rehearse::v1::bytes:
      problem = quantity_text(parse_bytes(text), sizes, rule, text);
      break;
    case rehearse::v1::bandwidth:
      problem = quantity_text(parse_bandwidth(text), bandwidths, rule, text);
      break;
    case rehearse::v1::duration:
      problem = quantity_text(parse_duration(text), durations, rule, text);
      break;
    case rehearse::v1::flop_rate:
      problem = quantity_text(parse_flop_rate(text), flop_rates, rule, text);
      break;
    case rehearse::v1::frequency:
      problem = quantity_text(parse_frequency(text), frequencies, rule, text);
      break;
    default:
      return "";
  }
  return problem.empty() ? "" : fmt::format("'{}': {}", field.name(), problem);
}

std::vector<std::string> enum_names(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i)
    if (field.enum_type()->value(i)->number() != 0)
      names.push_back(field.enum_type()->value(i)->name());
  return names;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    // Most text is ASCII: check eight bytes at once.
    for (std::uint64_t eight = 0; i + sizeof eight <= text.size(); i += sizeof eight) {
      std::memcpy(&eight, &text[i], sizeof eight);
      if ((eight & 0x8080808080808080) != 0) break;
    }
    if (i == text.size()) return true;
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char first = byte(i);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    if (length == 3 && first == 0xE0 && byte(i + 1) < 0xA0) return false;  // overlong
    if (length == 3 && first == 0xED && byte(i + 1) > 0x9F) return false;  // surrogates
    if (length == 4 && first == 0xF0 && byte(i + 1) < 0x90) return false;  // overlong
    if (length == 4 && first == 0xF4 && byte(i + 1) > 0x8F) return false;  // beyond U+10FFFF
    i += length;
  }
  return true;
}

Diagnostics Source::check(const Message& message, bool whole) const {
  Diagnostics problems;
  check_message(*this, message, whole, problems);
  return problems;
}

Bytes to_bytes(const std::string& text) {
  return value_or_zero(text, parse_bytes);
}
Bandwidth to_bandwidth(const std::string& text) {
  return value_or_zero(text, parse_bandwidth);
}
Duration to_duration(const std::string& text) {
  return value_or_zero(text, parse_duration);
}
double to_flop_rate(const std::string& text) {
  return value_or_zero(text, parse_flop_rate);
}

}  // namespace sim::input
