// textproto.h — reads a protobuf text file into a message and says everything that is wrong with
// it at once, each with its line and column.
//
// Invariants
//  (1) A file that protobuf's own TextFormat accepts gives the same message here, except that
//      unknown fields, fields given twice, NaN and infinity are errors (a test compares).
//  (2) Bounded: files up to max_file_bytes, blocks nested up to max_depth, max_problems problems.
//  (3) The rules of rule.proto hold for every message that comes back without diagnostics.
//
// The grammar is protobuf's text format (protobuf.dev/reference/protobuf/textformat-spec) without
// extensions and Any. TextFormat itself stops at the first mistake, so only its tokenizer is used.
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

// The whole file but a byte-order mark of UTF-8. A path that is missing, a directory, unreadable or
// too large is a diagnostic.
Result<std::string> read_file(const std::string& path, std::int64_t limit = max_file_bytes);

// Another accepted spelling of a field: "tensor_model_parallel_size" for "tp".
struct Synonym {
  std::string_view given;
  std::string_view field;
};

// A message that was read from a text, with the place of each of its fields.
class Source {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // "path:line:column" of element `index` of a field; the block of the message when the field was
  // left out.
  std::string where(const google::protobuf::Message& message, std::string_view field,
                    int index = 0) const;
  std::string where(const google::protobuf::Message& message) const;

  // Fills `message`; appends what is wrong with the text. Then checks the rules of rule.proto,
  // unless `check` is false (the caller still changes the message and checks then).
  Diagnostics read(const std::string& text, google::protobuf::Message& message,
                   std::span<const Synonym> synonyms = {}, bool check = true);
  // The same of a whole file: one of another kind breaks so many rules that they would hide what is
  // wrong, and is one problem.
  Diagnostics read_whole(const std::string& text, google::protobuf::Message& message,
                         std::span<const Synonym> synonyms = {}, bool check = true);
  // Every rule that a value breaks; unless `whole` is false, also every field that is missing.
  Diagnostics check(const google::protobuf::Message& message, bool whole = true) const;
  // Was the field written, even as the value that proto3 does not keep (0, "")?
  bool has(const google::protobuf::Message& message, std::string_view field) const;

  // Fills `message` from protobuf's JSON form of the same schema; places are field names.
  Diagnostics read_json(const std::string& text, google::protobuf::Message& message);

  // Says where a field that did not come from the text was set: "command line, 'tp=4'".
  void place(const google::protobuf::Message& message, std::string_view field, std::string where);

 private:
  friend class Reader;
  struct Key {
    const google::protobuf::Message* message = nullptr;
    int field = 0, index = 0;  // its number, which element; 0: the message's block
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  // In words only when somebody asks: nearly nobody does.
  struct Place {
    int line = 0, column = 0;  // from 1; 0: it is not in the text
    std::string said;
  };
  std::string in_words(const Place& place) const;

  std::string path_;
  std::unordered_map<Key, Place, Hash> places_;  // looked up, never walked
};

// Reads `path` (textproto, or JSON when it ends in .json) into `message` and checks its rules.
Diagnostics load(Source& source, google::protobuf::Message& message,
                 std::span<const Synonym> synonyms = {}, bool check = true);

}  // namespace sim::input
