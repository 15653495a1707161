#include "sim/input/fields/plan_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "sim/base/ascii.h"
#include "sim/base/text.h"
#include "sim/input/fields/fields.h"
#include "sim/input/text/number_text.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// All synonyms of the field table.
const std::vector<Synonym>& synonyms() {
  static const std::vector<Synonym> all = [] {
    std::vector<Synonym> found;
    for (const Field& field : plan_fields()) {
      std::string_view rest = field.synonyms;
      while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        found.push_back({rest.substr(0, end), field.name});
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return found;
  }();
  return all;
}

// "Tensor-Model-Parallel-Size" -> "tensor_model_parallel_size".
std::string plain_key(std::string_view key) {
  while (key.starts_with('-')) key.remove_prefix(1);
  std::string text = lower(key);
  std::ranges::replace(text, '-', '_');
  return text;
}

std::vector<std::string> all_names(const Message& message) {
  std::vector<std::string> names;
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) names.push_back(descriptor->field(i)->name());
  if (descriptor == v1::Plan::descriptor())
    for (const Synonym& synonym : synonyms()) names.emplace_back(synonym.given);
  return names;
}

// "; did you mean 'node.nics'?": the names of the message, and the fields of a cluster whose last
// part is the key.
std::string near_setting(std::string_view key, const Message& message) {
  const std::string last = fmt::format(".{}", key);
  if (message.GetDescriptor() == v1::Plan::descriptor())
    for (const Field& field : cluster_fields())
      if (field.name.ends_with(last)) return fmt::format("; did you mean '{}'?", field.name);
  return did_you_mean(key, all_names(message));
}

std::string in_quotes(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// The value in protobuf's text format.
std::string written(const FieldDescriptor& field, std::string value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return in_quotes(value);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    if (value == "on" || value == "yes" || value == "TRUE") return "true";
    if (value == "off" || value == "no" || value == "FALSE") return "false";
  }
  return value;
}

// "fsdp.reshard_after_forward=..., ".
std::string block_example(const FieldDescriptor& block) {
  const auto* message = block.message_type();
  std::string text;
  for (int i = 0; i < std::min(message->field_count(), 3); ++i)
    text += fmt::format("{}{}.{}=...", i == 0 ? "" : " ", block.name(), message->field(i)->name());
  return text;
}

// The message and field that a key names.
struct Target {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  std::string prefix, key;  // "fsdp.", "replicas"
  std::string problem;      // "": none
};

Target target_of(std::string_view given, v1::Plan& plan) {
  Target target{&plan, nullptr, "", plain_key(given), ""};
  std::string& key = target.key;
  for (const Synonym& synonym : synonyms())
    if (synonym.given == key) key = synonym.field;
  for (const std::string_view message : {"architecture.", "fsdp.", "codec."})
    if (key.starts_with(message)) target.prefix = message;
  key = key.substr(target.prefix.size());
  if (target.prefix == "fsdp.")
    target.message = plan.mutable_fsdp();
  else if (target.prefix == "codec.")
    target.message = plan.mutable_codec();
  else if (!target.prefix.empty())
    target.message = plan.mutable_architecture();
  const auto* field = target.field = target.message->GetDescriptor()->FindFieldByName(key);
  if (field && field->message_type() && !field->is_repeated())
    target.problem =
        fmt::format("'{}' is a block; set its fields one by one: {}", key, block_example(*field));
  else if (!field || field->is_repeated())
    target.problem = fmt::format("a plan has no setting '{}'{}", key.substr(0, 80),
                                 near_setting(key.substr(0, 80), *target.message));
  return target;
}

Diagnostics one(const Setting& setting, v1::Plan& plan, Source& source, std::string& done) {
  const std::size_t equals = setting.text.find('=');
  if (equals == std::string::npos || equals == 0)
    return {{setting.where, fmt::format("'{}' is not key=value; write for example tp=4",
                                        setting.text.substr(0, 80))}};
  const auto [target, field, prefix, key, unknown] =
      target_of(std::string_view(setting.text).substr(0, equals), plan);
  const std::string value = setting.text.substr(equals + 1);
  if (!unknown.empty()) return {{setting.where, unknown}};
  if (value.empty())
    return {{setting.where, fmt::format("'{}' has no value; write for example {}=...", key, key)}};

  if (const std::string problem = number_problem(*field, value); !problem.empty())
    return {{setting.where, problem}};
  const std::unique_ptr<Message> parsed(target->New());
  Source single("");
  Diagnostics problems =
      single.read(fmt::format("{}: {}", key, written(*field, value)), *parsed, {}, false);
  if (problems.empty()) problems = single.check(*parsed, false);
  std::vector<const FieldDescriptor*> filled;
  parsed->GetReflection()->ListFields(*parsed, &filled);
  if (problems.empty() && (filled.size() != 1 || filled.front() != field))
    problems.push_back({"", fmt::format("'{}' is not one value of '{}'", value, key)});
  for (Diagnostic& problem : problems) problem.where = setting.where;
  if (!problems.empty()) return {problems.front()};  // the others follow from it
  target->GetReflection()->ClearField(target, field);
  target->MergeFrom(*parsed);
  source.place(*target, key, setting.where);
  done = prefix + key;
  return {};
}

}  // namespace

std::span<const Synonym> plan_synonyms() {
  return synonyms();
}

std::string setting_problem(std::string_view key) {
  v1::Plan plan;
  return target_of(key, plan).problem;
}

FieldName plan_field(std::string_view given) {
  std::string key = plain_key(given);
  for (const Synonym& synonym : synonyms())
    if (synonym.given == key) key = synonym.field;
  const auto* field = v1::Plan::descriptor()->FindFieldByName(key);
  if (field && !field->is_repeated() && !field->message_type()) return {key, ""};
  return {"", fmt::format("a plan has no setting '{}'{}", given.substr(0, 80),
                          near_setting(key.substr(0, 80), v1::Plan()))};
}

namespace {

// Groups of fields that split layers over parts. A plan uses one group.
using SplitFields = std::vector<std::string_view>;
const std::array<SplitFields, 4> split_fields{
    SplitFields{"first_stage_layers", "last_stage_layers"},
    SplitFields{"account_for_embedding", "account_for_loss"},
    SplitFields{"layer_split", "embedding_layers", "head_layers"}, SplitFields{"pipeline_layout"}};

void clear(v1::Plan& plan, std::string_view field) {
  const auto* found = v1::Plan::descriptor()->FindFieldByName(std::string(field));
  plan.GetReflection()->ClearField(&plan, found);
}

}  // namespace

void drop_splits(const v1::Plan& said, v1::Plan& from) {
  std::vector<const FieldDescriptor*> fields;
  said.GetReflection()->ListFields(said, &fields);
  const auto says = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](const auto* field) { return field->name() == name; });
  };
  const auto any = [&](const SplitFields& names) { return std::ranges::any_of(names, says); };
  if (std::ranges::none_of(split_fields, any)) return;
  for (const SplitFields& names : split_fields)
    if (!any(names))
      for (const std::string_view name : names) clear(from, name);
}

void drop_implied(std::span<const std::string> fields, v1::Plan& plan) {
  const auto has = [&](std::string_view name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
  };
  if (has("gpus") && !has("nodes")) plan.clear_nodes();
  if (has("nodes") && !has("gpus")) plan.clear_gpus();
  if (has("dp") && !has("gpus") && !has("nodes")) {
    plan.clear_gpus();
    plan.clear_nodes();
  }
  const bool world_follows = has("tp") || has("cp") || has("pp") || has("gpus") || has("nodes");
  if (world_follows && !has("dp") &&
      (plan.has_gpus() || plan.has_nodes() || has("gpus") || has("nodes")))
    plan.clear_dp();
  for (const SplitFields& own : split_fields) {
    if (std::ranges::none_of(own, has)) continue;
    for (const SplitFields& others : split_fields)
      if (std::ranges::none_of(others, has))
        for (const std::string_view name : others) clear(plan, name);
  }
  if (has("pipeline_layout") && !has("virtual_stages")) plan.clear_virtual_stages();
  if (has("virtual_stages")) plan.clear_layers_per_virtual_stage();
  if (has("layers_per_virtual_stage") && !has("virtual_stages")) plan.clear_virtual_stages();
}

namespace {

std::string value_text(const Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnum(message, &field)->name();
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format("{}", reflection->GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format("{}", reflection->GetInt64(message, &field));
    default:
      assert(field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
      return fmt::format("{}", reflection->GetDouble(message, &field));
  }
}

void add_settings(const Message& message, const std::string& prefix,
                  std::vector<std::string>& settings) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    if (field->message_type() != nullptr) {
      add_settings(reflection->GetMessage(message, field), field->name() + ".", settings);
    } else if (field->number() != v1::Plan::kNameFieldNumber || !prefix.empty()) {
      settings.push_back(prefix + field->name() + "=" + value_text(message, *field));
    }
  }
}

}  // namespace

std::vector<std::string> plan_settings(const v1::Plan& plan) {
  std::vector<std::string> settings;
  add_settings(plan, "", settings);
  settings.insert(settings.end(), plan.cluster_settings().begin(), plan.cluster_settings().end());
  return settings;
}

Diagnostics apply(std::span<const Setting> settings, v1::Plan& plan, Source& source) {
  Diagnostics problems;
  std::vector<std::string> set;
  // A new model drops the old description; a description in the same settings changes the new
  // model.
  const auto names_model = [](const Setting& s) {
    return plain_key(s.text.substr(0, s.text.find('='))) == "model";
  };
  if (std::ranges::any_of(settings, names_model)) plan.clear_architecture();
  for (const Setting& setting : settings) {
    std::string done;
    for (Diagnostic& problem : one(setting, plan, source, done)) problems.push_back(problem);
    set.push_back(done);
  }
  drop_implied(set, plan);
  return problems;
}

}  // namespace sim::input
