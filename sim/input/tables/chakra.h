// chakra.h — reads Chakra execution traces, as protobuf messages (chakra.proto) or as JSON.
//
// `rehearse calibrate` reads recorded traces with it. Number of nodes and length of names are
// bounded. Errors: a message that is cut off, a trace of the schema before 2024-05, and invalid
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

enum class ChakraType : std::uint8_t {
  invalid,
  metadata,
  memory_load,
  memory_store,
  compute,
  send,
  receive,
  collective,
};

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::invalid;
  std::uint64_t start_us = 0, duration_us = 0;
  std::size_t dependencies = 0;
  std::map<std::string, std::int64_t> numbers;  // integer attributes
  std::map<std::string, std::string> texts;
};

struct ChakraTrace {
  std::string version;
  std::vector<ChakraNode> nodes;
};

// True if the bytes begin like a binary Chakra trace.
bool is_chakra(std::string_view bytes);
Result<ChakraTrace> read_chakra(std::string_view bytes, const std::string& path);
// The JSON form of the same traces (chakra_json.cpp).
bool is_chakra_json(std::string_view bytes);
Result<ChakraTrace> read_chakra_json(std::string_view bytes, const std::string& path);

}  // namespace sim::input
