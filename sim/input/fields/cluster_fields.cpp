#include "sim/input/fields/cluster_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/base/text.h"
#include "sim/input/text/number_text.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::array<std::string_view, 9> blocks = {
    "fabric.", "node.",           "gpu.",       "condition", "jitter.",
    "host=",   "node_bandwidth=", "other_gpu=", "transport."};

std::string_view without_prefix(std::string_view key) {
  if (key.starts_with("cluster.")) key.remove_prefix(8);
  return key;
}

std::vector<std::string> names_of_type(const google::protobuf::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::vector<std::string> names_of(const Message& message) {
  return names_of_type(*message.GetDescriptor());
}

std::string in_text_format(const FieldDescriptor& field, const std::string& value) {
  const bool plain = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                     !value.starts_with('[') && !value.starts_with('"');
  std::string text = value;
  // A word of an enumeration has no hyphen: "rail-optimised".
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) std::ranges::replace(text, '-', '_');
  if (!plain) return text;
  text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// "2:1" as "2", for a field that is a ratio: switches are sold with such numbers. Other text is
// unchanged.
std::string without_colon(const FieldDescriptor& field, const std::string& text) {
  if (!field.name().ends_with("oversubscription")) return text;
  double down = 0, up = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, first] = std::from_chars(text.data(), end, down);
  if (first != std::errc{} || colon == end || *colon != ':') return text;
  const auto [rest, second] = std::from_chars(colon + 1, end, up);
  if (second != std::errc{} || rest != end || !(down > 0) || !(up > 0)) return text;
  return shortest(down / up);
}

// The message and field that a key such as "node.nics" names.
struct Target {
  Message* message;
  const FieldDescriptor* field;
  std::string problem;
};

// "; did you mean 'kind'?", or all names of a block: "; fabric has kind, rails, ...".
std::string near_or_all(std::string_view key, std::string_view path,
                        const std::vector<std::string>& names) {
  std::string near = did_you_mean(key.substr(0, 80), names);
  if (!near.empty() || key.size() == path.size()) return near;
  return fmt::format("; {} has {}",
                     path.substr(0, path.size() - std::min(path.size(), key.size() + 1)),
                     fmt::join(names, ", "));
}

Target target_of(std::string_view key, v1::Cluster& cluster) {
  const std::string_view path = key.substr(0, 80);
  Message* target = &cluster;
  for (;;) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const FieldDescriptor* field =
        target->GetDescriptor()->FindFieldByName(std::string(key.substr(0, dot)));
    if (field && field->is_repeated() && field->message_type() && dot < key.size())
      return {nullptr, nullptr,
              fmt::format("'{0}' is a list of blocks: write {0}='{{{1}: ... }}'; it has {2}",
                          path.substr(0, path.size() - (key.size() - dot)), key.substr(dot + 1, 40),
                          listed(names_of_type(*field->message_type()), "and"))};
    if (!field || (dot < key.size()) != (field->message_type() && !field->is_repeated()))
      return {nullptr, nullptr,
              fmt::format("a cluster has no setting '{}'{}", path,
                          near_or_all(key, path, names_of(*target)))};
    if (dot == key.size()) return {target, field, ""};
    target = target->GetReflection()->MutableMessage(target, field);
    key.remove_prefix(dot + 1);
  }
}

Diagnostics one(const Setting& setting, v1::Cluster& cluster, Source& source,
                std::vector<std::string>& done) {
  const auto refuse = [&](std::string text) {
    return Diagnostics{{setting.where, std::move(text)}};
  };
  const std::size_t equals = setting.text.find('=');
  if (equals == std::string::npos || equals == 0)
    return refuse(fmt::format("'{}' is not key=value; write for example fabric.oversubscription=4",
                              setting.text.substr(0, 80)));
  const std::string_view key = without_prefix(std::string_view(setting.text).substr(0, equals));
  const std::string path(key.substr(0, 80));
  std::string value = setting.text.substr(equals + 1);
  const Target named = target_of(key, cluster);
  if (!named.problem.empty()) return refuse(named.problem);
  Message* const target = named.message;
  const FieldDescriptor* const field = named.field;
  if (value.empty()) return refuse(fmt::format("'{}' has no value", path));
  value = without_colon(*field, value);
  // Quotes for a shell inside the quotes of another.
  if (field->message_type() && value.size() > 2 && value.starts_with('\'') && value.ends_with('\''))
    value = value.substr(1, value.size() - 2);
  if (const std::string problem = field->is_repeated() ? "" : number_problem(*field, value);
      !problem.empty())
    return refuse(problem);
  const std::unique_ptr<Message> parsed(target->New());
  Source single("");
  const std::string colon = field->message_type() ? " " : ": ";
  Diagnostics problems =
      single.read(field->name() + colon + in_text_format(*field, value), *parsed, {}, false);
  if (problems.empty()) problems = single.check(*parsed, false);
  std::vector<const FieldDescriptor*> filled;
  parsed->GetReflection()->ListFields(*parsed, &filled);
  // proto3 does not store a value that is the type's default; it is still one value of the field.
  const bool only = filled.empty() || (filled.size() == 1 && filled.front() == field);
  if (problems.empty() && !only)
    problems.push_back(
        {"", fmt::format("'{}' is not one value of '{}'", value.substr(0, 80), path)});
  for (Diagnostic& problem : problems) problem.where = setting.where;
  if (!problems.empty()) return {problems.front()};
  if (!field->message_type()) target->GetReflection()->ClearField(target, field);
  target->MergeFrom(*parsed);
  source.place(*target, field->name(), setting.where);
  done.push_back(path);
  return {};
}

}  // namespace

bool is_cluster_setting(std::string_view text) {
  const std::string_view key = text.substr(0, std::min(text.find('='), text.size() - 1) + 1);
  return key.starts_with("cluster.") ||
         std::ranges::any_of(blocks, [&](std::string_view b) { return key.starts_with(b); });
}

std::vector<std::string> cluster_settings_of(const std::vector<std::string>& settings) {
  std::vector<std::string> all;
  for (const std::string& text : settings)
    if (is_cluster_setting(text)) all.push_back(text);
  return all;
}

std::string cluster_setting_problem(std::string_view key) {
  v1::Cluster cluster;
  return target_of(without_prefix(key), cluster).problem;
}

Diagnostics apply(std::span<const Setting> settings, v1::Cluster& cluster, Source& source) {
  Diagnostics problems;
  std::vector<std::string> done;
  for (const Setting& setting : settings) {
    for (Diagnostic& problem : one(setting, cluster, source, done)) problems.push_back(problem);
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(done, name) != done.end();
  };
  v1::Node& node = *cluster.mutable_node();
  const bool gpus = has("node.gpus"), nics = has("node.nics"), sockets = has("node.sockets");
  if ((gpus || nics) && !has("node.nic_of_gpu")) node.clear_nic_of_gpu();
  if ((gpus || sockets) && !has("node.socket_of_gpu")) node.clear_socket_of_gpu();
  if ((nics || sockets) && !has("node.socket_of_nic")) node.clear_socket_of_nic();
  if (has("fabric.kind") && cluster.fabric().kind() == v1::Fabric::single_switch &&
      !has("fabric.nodes_per_leaf"))
    cluster.mutable_fabric()->clear_nodes_per_leaf();
  return problems;
}

}  // namespace sim::input
