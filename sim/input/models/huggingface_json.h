// huggingface_json.h — parses a JSON object and records the place of each value, for diagnostics.
//
// The readers of config.json use it. nlohmann::json does not keep places.
//
// Invariants
//  (1) Bounded: files up to max_json_bytes, nested up to max_json_depth; no recursion.
//  (2) A duplicate key at any depth is a problem. Text after the object is a problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

constexpr std::int64_t max_json_bytes = 1 << 20;
constexpr int max_json_depth = 64;

struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;      // also for integers, even above 64 bits
  std::string text;     // for a string, without quotes
  std::size_t key = 0;  // byte offsets of the key and the value
  std::size_t start = 0;
  std::size_t end = 0;           // for scalars and objects
  std::vector<JsonValue> items;  // for a list: its scalars
};

class JsonObject {
 public:
  // Parses a text. Nothing if it is no JSON object. Errors are appended to `problems` in either
  // case.
  static std::optional<JsonObject> read(const std::string& text, const std::string& name,
                                        Diagnostics& problems);

  const JsonValue* find(std::string_view key) const;
  const std::map<std::string, JsonValue, std::less<>>& values() const { return values_; }
  // "name:line:column", columns counted in code points.
  std::string where(std::size_t offset) const;
  std::size_t start() const { return start_; }  // offset of the opening brace
  // The source text of a scalar, shortened for messages.
  std::string spelled(const JsonValue& value) const;
  // A nested object, with places in the same file. Its errors were reported when the whole was
  // read.
  JsonObject part(const JsonValue& object) const;

 private:
  friend class JsonReader;
  JsonObject(const std::string& text, std::string name);

  std::string name_;
  std::string text_;
  std::vector<std::size_t> lines_;  // offset of each line's first byte
  std::map<std::string, JsonValue, std::less<>> values_;
  std::size_t start_ = 0;
};

}  // namespace sim::input
