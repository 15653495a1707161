// textproto.h — reads a protobuf text file into a message and reports all errors with line and
// column.
//
// Every loader of a text-format file calls `load` or Source. protobuf's own TextFormat stops at the
// first error, so only its tokenizer is used.
//
// Invariants
//  (1) A file that TextFormat accepts gives the same message here. Exceptions: unknown fields,
//      duplicate fields, NaN and infinity are errors. A test compares both parsers.
//  (2) Bounded: files up to max_file_bytes, blocks nested up to max_depth, max_problems problems.
//  (3) A message that is returned without diagnostics satisfies all rules of rule.proto.
//
// Source of the grammar: protobuf's text format (protobuf.dev/reference/protobuf/textformat-spec),
// without extensions and Any.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sim/base/result.h"

namespace sim::input {

constexpr std::int64_t max_file_bytes = 16 << 20;
constexpr int max_depth = 32;
constexpr std::size_t max_problems = 100;

// The contents of a file without a UTF-8 byte-order mark. Error: the path is missing, a directory,
// unreadable, or larger than `limit` bytes.
Result<std::string> read_file(const std::string& path, std::int64_t limit = max_file_bytes);

// Another accepted spelling of a field: "tensor_model_parallel_size" for "tp".
struct Synonym {
  std::string_view given;
  std::string_view field;
};

// Records the place of each field of the messages that it read, for diagnostics. A message must not
// move while its Source is in use: fields are found by the message's address.
class Source {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // "path:line:column" of element `index` of a field. If the field was not written: the place of
  // the message's block.
  std::string where(const google::protobuf::Message& message, std::string_view field,
                    int index = 0) const;
  std::string where(const google::protobuf::Message& message) const;

  // Fills `message` from the text and returns the errors. `check`: also check the rules of
  // rule.proto. Pass false if the caller still changes the message.
  Diagnostics read(const std::string& text, google::protobuf::Message& message,
                   std::span<const Synonym> synonyms = {}, bool check = true);
  // Reads a whole file. A file of another kind gives one problem that names its kind, instead of
  // one problem for each broken rule.
  Diagnostics read_whole(const std::string& text, google::protobuf::Message& message,
                         std::span<const Synonym> synonyms = {}, bool check = true);
  // Every rule that a value breaks. `whole`: also report required fields that are missing.
  Diagnostics check(const google::protobuf::Message& message, bool whole = true) const;
  // True if the field was written, even with the value that proto3 does not store (0, "").
  bool has(const google::protobuf::Message& message, std::string_view field) const;

  // Fills `message` from protobuf's JSON form of the same schema; places are field names.
  Diagnostics read_json(const std::string& text, google::protobuf::Message& message);

  // Sets the place of element `index` of a field that did not come from the text: "command line,
  // 'tp=4'".
  void place(const google::protobuf::Message& message, std::string_view field, std::string where,
             int index = 0);

 private:
  friend class Reader;
  struct Key {
    const google::protobuf::Message* message = nullptr;
    int field = 0, index = 0;  // field number, element; 0: the block
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  // Kept as numbers and formatted on demand, because almost no place is printed.
  struct FieldPosition {
    int line = 0, column = 0;  // from 1; 0: not in the text
    std::string said;
  };
  std::string position_text(const FieldPosition& place) const;

  std::string path_;
  std::unordered_map<Key, FieldPosition, Hash> places_;  // order is never used
};

// Reads the file of `source` (JSON if the name ends in .json, else text format) into `message`.
// `check`: also check its rules.
Diagnostics load(Source& source, google::protobuf::Message& message,
                 std::span<const Synonym> synonyms = {}, bool check = true);

}  // namespace sim::input
