// chakra_json.cpp — reads Chakra traces as JSON, in the two forms of the project's converter.
//
// Form 1: one object with "global_metadata" and "nodes", and names as in the schema. Form 2: one
// message after another, with names in camel case and 64-bit numbers in quotes. A PyTorch execution
// trace with "chakra" in its schema has nodes too. Its GPU nodes have durations if the trace was
// linked to a profile. [mlcommons/chakra src/jsonizer/jsonizer.py, before and since 2024-11;
// et_def.proto]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/input/tables/chakra.h"

namespace sim::input {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 8> node_types{
    "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
    "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};

// The end of the object that starts at `at`; npos if it does not end.
std::size_t end_of(std::string_view bytes, std::size_t at) {
  int depth = 0;
  bool in_text = false;
  for (; at < bytes.size(); ++at) {
    const char c = bytes[at];
    if (in_text) {
      if (c == '\\') ++at;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::size_t next_object(std::string_view bytes, std::size_t at) {
  while (at < bytes.size() && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' ||
                               bytes[at] == '\t' || bytes[at] == ','))
    ++at;
  return at;
}

const Json* member(const Json& object, const char* name, const char* camel) {
  for (const char* key : {name, camel})
    if (const auto found = object.find(key); found != object.end()) return &*found;
  return nullptr;
}

std::int64_t whole(const Json* value) {
  if (!value) return 0;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_float() && value->get<double>() >= 0 && value->get<double>() < 9e18)
    return static_cast<std::int64_t>(value->get<double>());
  std::int64_t n = 0;
  if (!value->is_string()) return 0;
  const std::string text = value->get<std::string>();
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

// Reads {"name": "comm_size", "int64_val": 4096}: the type names the member with the value.
void read_attribute(const Json& attribute, ChakraNode& node) {
  const Json* name = member(attribute, "name", "name");
  if (!attribute.is_object() || !name || !name->is_string()) return;
  for (const auto& [key, value] : attribute.items()) {
    if (key == "name" || key == "doc_string" || key == "docString") continue;
    if (key.starts_with("string") && value.is_string())
      node.texts[*name] = value.get<std::string>();
    else if (value.is_number() || value.is_boolean() || value.is_string())
      node.numbers[*name] = whole(&value);
  }
}

ChakraType type_of(const Json& object) {
  const Json* type = member(object, "type", "type");
  if (type && type->is_string()) {
    const auto* found = std::ranges::find(node_types, type->get_ref<const std::string&>());
    if (found != node_types.end()) return static_cast<ChakraType>(found - node_types.begin());
  }
  const std::int64_t number = whole(type);
  if (type && number >= 0 && number < static_cast<std::int64_t>(node_types.size()))
    return static_cast<ChakraType>(number);
  // A node of a PyTorch trace: an operator, or a kernel of its profile.
  const Json* category = member(object, "cat", "cat");
  return category && *category == "kernel" ? ChakraType::compute : ChakraType::metadata;
}

std::size_t count_of(const Json* list) {
  return list && list->is_array() ? list->size() : 0;
}

ChakraNode node_of(const Json& object) {
  ChakraNode node;
  node.id = static_cast<std::uint64_t>(whole(member(object, "id", "id")));
  if (const Json* name = member(object, "name", "name"); name && name->is_string())
    node.name = name->get<std::string>();
  node.type = type_of(object);
  const Json* duration = member(object, "duration_micros", "durationMicros");
  const Json* start = member(object, "start_time_micros", "startTimeMicros");
  node.duration_us = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, whole(duration ? duration : member(object, "dur", "dur"))));
  node.start_us = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, whole(start ? start : member(object, "ts", "ts"))));
  node.dependencies = count_of(member(object, "ctrl_deps", "ctrlDeps")) +
                      count_of(member(object, "data_deps", "dataDeps"));
  if (const Json* all = member(object, "attr", "attrs"); all && all->is_array())
    for (const Json& one : *all) read_attribute(one, node);
  return node;
}

// Reads form 1: the version and all nodes of one object.
void read_object(const Json& object, ChakraTrace& out) {
  const Json* metadata = member(object, "global_metadata", "globalMetadata");
  for (const Json* of : {metadata, &object}) {
    const Json* version = of ? member(*of, "version", "schema") : nullptr;
    if (version && version->is_string() && out.version.empty())
      out.version = version->get<std::string>();
  }
  if (const Json* nodes = member(object, "nodes", "nodes"); nodes && nodes->is_array())
    for (const Json& node : *nodes)
      if (node.is_object()) out.nodes.push_back(node_of(node));
  if (object.contains("id")) out.nodes.push_back(node_of(object));
}

}  // namespace

bool is_chakra_json(std::string_view bytes) {
  constexpr std::size_t head = 4096;
  const std::size_t at = next_object(bytes, 0);
  if (at >= bytes.size() || bytes[at] != '{') return false;
  const std::string_view begin = bytes.substr(at, head);
  if (begin.find("\"global_metadata\"") < 64 || begin.find("\"globalMetadata\"") < 64) return true;
  if (const std::size_t schema = begin.find("\"schema\""); schema != std::string_view::npos)
    return begin.substr(schema, 64).find("chakra") != std::string_view::npos;
  // Form 2: the first message has a version or is empty.
  const std::size_t end = end_of(begin, 0);
  if (end == std::string_view::npos ||
      begin.substr(0, end).find("\"id\"") != std::string_view::npos)
    return false;
  const std::size_t next = next_object(begin, end);
  return next < begin.size() && begin[next] == '{' &&
         begin.substr(next).find("\"id\"") != std::string_view::npos;
}

Result<ChakraTrace> read_chakra_json(std::string_view bytes, const std::string& path) {
  ChakraTrace out;
  std::size_t message = 0;
  for (std::size_t at = next_object(bytes, 0); at < bytes.size(); at = next_object(bytes, at)) {
    ++message;
    const std::size_t end = end_of(bytes, at);
    const Json object = end == std::string_view::npos
                            ? Json(Json::value_t::discarded)
                            : Json::parse(bytes.substr(at, end - at), nullptr, false);
    if (!object.is_object())
      return Diagnostics{{path, fmt::format("the JSON of a Chakra trace breaks off or is damaged "
                                            "in its object {}, which starts at byte {}",
                                            message, at)}};
    read_object(object, out);
    at = end;
  }
  return out;
}

}  // namespace sim::input
