// huggingface_json.h — the top level of a JSON file, each value with its place in the text.
//
// Invariants
//  (1) Bounded: files up to max_json_bytes, nested up to max_json_depth; no recursion.
//  (2) A key given twice, at any depth, is a problem; so is anything after the object.
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
  double real = 0;      // also of an integer, and of one beyond 64 bits
  std::string text;     // of a string, without quotes
  std::size_t key = 0;  // where the key and the value start in the file
  std::size_t start = 0;
  std::size_t end = 0;           // of a scalar and of an object
  std::vector<JsonValue> items;  // scalars of a list
};

class JsonObject {
 public:
  // Null when the text is no JSON object; what is wrong is appended to `problems` either way.
  static std::optional<JsonObject> read(const std::string& text, const std::string& name,
                                        Diagnostics& problems);

  const JsonValue* find(std::string_view key) const;
  const std::map<std::string, JsonValue, std::less<>>& values() const { return values_; }
  // "name:line:column", columns counted in code points.
  std::string where(std::size_t offset) const;
  std::size_t start() const { return start_; }  // the opening brace
  // A scalar as the file spells it, shortened.
  std::string spelled(const JsonValue& value) const;
  // One of the values that is an object, with its places in the same file. What is wrong in it was
  // told with the whole.
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
