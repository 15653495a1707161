#include "sim/input/tables/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "sim/input/schema/chakra.pb.h"

namespace sim::input {

namespace {

namespace v1 = rehearse::v1;
using google::protobuf::io::CodedInputStream;

constexpr std::size_t max_nodes = 20'000'000;
constexpr std::size_t max_message = 16 << 20;

// A sequence of messages, each with its length as a varint.
class Messages {
 public:
  explicit Messages(std::string_view bytes) : bytes_(bytes) {}
  bool more() const { return at_ < bytes_.size(); }
  std::size_t at() const { return at_; }
  // False if the length is missing or exceeds the rest of the file.
  bool next(std::string_view& message) {
    std::uint64_t length = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (at_ >= bytes_.size()) return false;
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      if (length > max_message || length > bytes_.size() - at_) return false;
      message = bytes_.substr(at_, static_cast<std::size_t>(length));
      at_ += static_cast<std::size_t>(length);
      return true;
    }
    return false;
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

template <class Message>
bool parse(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// The number, in whichever of the integer types the writer used.
std::int64_t whole(const v1::ChakraAttribute& a) {
  const std::int64_t values[] = {
      a.int64_value(),       static_cast<std::int64_t>(a.uint64_value()),
      a.int32_value(),       a.uint32_value(),
      a.sint32_value(),      a.sint64_value(),
      a.fixed32_value(),     static_cast<std::int64_t>(a.fixed64_value()),
      a.sfixed32_value(),    a.sfixed64_value(),
      a.bool_value() ? 1 : 0};
  for (const std::int64_t value : values)
    if (value != 0) return value;
  return 0;
}

ChakraNode node_of(const v1::ChakraNode& from) {
  ChakraNode to;
  to.id = from.id();
  to.name = from.name();
  to.type = from.type() >= 0 && from.type() <= 7 ? static_cast<ChakraType>(from.type())
                                                 : ChakraType::invalid;
  to.start_us = from.start_time_micros();
  to.duration_us = from.duration_micros();
  to.dependencies = static_cast<std::size_t>(from.ctrl_deps_size()) +
                    static_cast<std::size_t>(from.data_deps_size());
  for (const v1::ChakraAttribute& attribute : from.attr()) {
    if (to.numbers.size() + to.texts.size() > 256) break;
    if (!attribute.string_value().empty())
      to.texts[attribute.name()] = attribute.string_value();
    else
      to.numbers[attribute.name()] = whole(attribute);
  }
  return to;
}

}  // namespace

bool is_chakra(std::string_view bytes) {
  Messages messages(bytes.substr(0, 1 << 20));
  std::string_view first;
  if (!messages.more() || !messages.next(first)) return false;
  v1::ChakraMetadata metadata;
  if (!parse(first, metadata)) return false;
  bool named = metadata.version().starts_with("0.") || metadata.version().starts_with("1.");
  for (const v1::ChakraAttribute& attribute : metadata.attr())
    named = named || attribute.name() == "schema";
  if (named) return true;
  // Some generators write empty metadata. A node must follow then.
  std::string_view second;
  v1::ChakraNode node;
  return first.empty() && messages.next(second) && parse(second, node) && !node.name().empty();
}

Result<ChakraTrace> read_chakra(std::string_view bytes, const std::string& path) {
  ChakraTrace trace;
  Messages messages(bytes);
  std::string_view message;
  v1::ChakraMetadata metadata;
  if (!messages.next(message) || !parse(message, metadata))
    return Diagnostics{{path, "byte 0: no metadata of a Chakra trace"}};
  trace.version = metadata.version();
  for (const v1::ChakraAttribute& attribute : metadata.attr())
    if (attribute.name() == "schema" && trace.version.empty())
      trace.version = attribute.string_value();
  v1::ChakraNode node;
  while (messages.more()) {
    const std::size_t at = messages.at();
    if (!messages.next(message))
      return Diagnostics{{path, fmt::format("byte {}: a message reaches past the end", at)}};
    if (!parse(message, node))
      return Diagnostics{
          {path, fmt::format("byte {}: not a node; traces of the schema before May 2024 are not "
                             "read, convert them with Chakra's own tools",
                             at)}};
    if (trace.nodes.size() >= max_nodes)
      return Diagnostics{{path, fmt::format("more than {} nodes", max_nodes)}};
    trace.nodes.push_back(node_of(node));
  }
  return trace;
}

}  // namespace sim::input
