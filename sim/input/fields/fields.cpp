#include "sim/input/fields/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `use` for each word of a blank-separated list.
template <class Use>
void each_word(std::string_view list, Use use) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (end > 0) use(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// The setting of a flag: "precision=bf16" for "bf16:bf16" of the field precision.
std::string setting_of(const Field& field, std::string_view flag) {
  if (flag.ends_with('=')) return fmt::format("{}=", field.name);
  return fmt::format("{}={}", field.name, flag.substr(flag.find(':') + 1));
}

std::string_view name_of_flag(std::string_view flag) {
  return flag.substr(0, flag.find_first_of("=:"));
}

// The schema's field for a dotted name such as "fabric.oversubscription".
const FieldDescriptor* descriptor(const Descriptor* message, std::string_view name) {
  for (;;) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const FieldDescriptor* field = message->FindFieldByName(std::string(name.substr(0, dot)));
    if (!field || dot == name.size()) return field;
    message = field->message_type();
    if (!message) return nullptr;
    name.remove_prefix(dot + 1);
  }
}

std::string unit_type(v1::Unit unit) {
  switch (unit) {
    case v1::bytes:
      return "bytes (\"40GiB\")";
    case v1::bandwidth:
      return "bandwidth (\"400Gb/s\")";
    case v1::duration:
      return "duration (\"1.5us\")";
    case v1::flop_rate:
      return "rate (\"312TFLOP/s\")";
    case v1::frequency:
      return "frequency (\"1980MHz\")";
    default:
      return "text";
  }
}

std::string single_type(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true|false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return fmt::format("{}", fmt::join(enum_names(field), "|"));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "block";
    case FieldDescriptor::CPPTYPE_STRING:
      return unit_type(rule_of(field).unit());
    default:
      break;
  }
  const v1::Rule& rule = rule_of(field);
  const bool real = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  std::string type = real ? "number" : "integer";
  if (rule.has_min()) type += fmt::format(" from {}", rule.min());
  if (rule.has_max()) type += fmt::format(" to {:.15g}", rule.max());
  return type;
}

std::string type_of(const FieldDescriptor& field) {
  const std::string type = single_type(field);
  return field.is_repeated() ? "list of " + type : type;
}

std::string flags_text(std::string_view flags) {
  std::string text;
  each_word(flags, [&](std::string_view flag) {
    text += fmt::format("{}--{}", text.empty() ? "" : " ", name_of_flag(flag));
  });
  return text;
}

FieldText text_of_field(const Field& field, const Descriptor* message) {
  FieldText text;
  text.name = field.name;
  text.unit = field.unit;
  text.otherwise = field.otherwise;
  text.flags = flags_text(field.flags);
  text.synonyms = field.synonyms;
  text.line = field.line;
  if (const FieldDescriptor* found = descriptor(message, field.name)) {
    text.type = type_of(*found);
    if (text.otherwise.empty() && rule_of(*found).required()) text.otherwise = "required";
  }
  return text;
}

Value value_of(const Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_INT32:
      return std::int64_t{reflection->GetInt32(message, &field)};
    case FieldDescriptor::CPPTYPE_INT64:
      return std::int64_t{reflection->GetInt64(message, &field)};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnum(message, &field)->name();
    default:
      return reflection->GetString(message, &field);
  }
}

}  // namespace

std::string text_of(const Value& value) {
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
}

const Field* find_plan_field(std::string_view name) {
  const auto rows = plan_fields();
  const auto found = std::ranges::find(rows, name, &Field::name);
  return found == rows.end() ? nullptr : &*found;
}

std::string megatron_setting(std::string_view flag) {
  std::string setting;
  for (const Field& field : plan_fields())
    each_word(field.flags, [&](std::string_view one) {
      if (name_of_flag(one) == flag) setting = setting_of(field, one);
    });
  return setting;
}

std::vector<std::string_view> megatron_flags() {
  std::vector<std::string_view> all;
  for (const Field& field : plan_fields())
    each_word(field.flags, [&](std::string_view one) { all.push_back(name_of_flag(one)); });
  return all;
}

void copy_fields(const v1::Plan& from, program::Plan& to) {
  for (const Field& field : plan_fields()) {
    if (!field.place || field.name.starts_with("architecture.")) continue;
    const Message* message = &from;
    std::string_view name = field.name;
    if (const std::size_t dot = name.find('.'); dot != std::string_view::npos) {
      if (name.starts_with("codec."))
        message = &from.codec();
      else
        message = &from.fsdp();
      name.remove_prefix(dot + 1);
    }
    const auto* found = message->GetDescriptor()->FindFieldByName(std::string(name));
    if (found && message->GetReflection()->HasField(*message, found))
      field.place.set(to, value_of(*message, *found));
  }
}

FieldText plan_field_text(const Field& field) {
  FieldText text = text_of_field(field, v1::Plan::descriptor());
  if (text.otherwise.empty() && field.place)
    text.otherwise = text_of(field.place.get(program::Plan{}));
  return text;
}

FieldText cluster_field_text(const Field& field) {
  FieldText text = text_of_field(field, v1::Cluster::descriptor());
  const std::string prefix = text.name + ".";
  for (const auto& rows : {cluster_fields(), cluster_block_fields()})
    for (const Field& row : rows) {
      if (!row.name.starts_with(prefix)) continue;
      const FieldText part = text_of_field(row, v1::Cluster::descriptor());
      text.parts.push_back(fmt::format("{}: {}{}{}. {}", part.name.substr(prefix.size()), part.type,
                                       part.unit.empty() ? "" : ", " + part.unit,
                                       part.otherwise.empty() ? ""
                                       : part.otherwise == "required"
                                           ? "; required"
                                           : "; default " + part.otherwise,
                                       part.line));
    }
  return text;
}

}  // namespace sim::input
