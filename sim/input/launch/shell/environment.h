// environment.h — variables of a followed script, and text that records its origin and its unknown
// parts.
//
// follow.cpp and expand.cpp use it. An unknown part comes from outside the script: from a program,
// the environment or an argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/launch/shell/script.h"

namespace sim::shell {

// Text with the place of each byte in the script. An unknown part is encoded in `bytes` as \x01,
// its number, \x02. Input never contains these bytes.
struct Text {
  std::string bytes;
  std::vector<std::uint32_t> at;  // place of each byte in the script

  void put(char c, std::size_t where) {
    bytes += c;
    at.push_back(static_cast<std::uint32_t>(where));
  }
  void put(const Text& other) {
    bytes += other.bytes;
    at.insert(at.end(), other.at.begin(), other.at.end());
  }
  void put(std::string_view text, std::size_t where) {
    bytes += text;
    at.insert(at.end(), text.size(), static_cast<std::uint32_t>(where));
  }
  Text part(std::size_t from, std::size_t size) const {
    Text text;
    text.bytes = bytes.substr(from, size);
    const auto first = at.begin() + static_cast<std::ptrdiff_t>(from);
    text.at.assign(first, first + static_cast<std::ptrdiff_t>(text.bytes.size()));
    return text;
  }
  std::vector<Text> parts() const;  // between blanks and ends of lines
  bool unknown() const { return bytes.find('\x01') != std::string::npos; }
};

struct Variable {
  bool array = false;
  std::vector<Text> elements;  // one element, unless it is an array
};

class Environment {
 public:
  const Variable* find(std::string_view name) const;
  Variable& operator[](const std::string& name) { return variables_[name]; }
  void unset(std::string_view name);
  const std::map<std::string, Variable, std::less<>>& all() const { return variables_; }

  // Creates the text of an unknown value. `unset`: nothing in the script sets it.
  Text unknown(std::string_view name, bool unset, std::size_t at);
  // The text; unknown parts appear as written in the script.
  Word word(const Text& text) const;
  std::string plain(const Text& text) const { return word(text).text; }
  // The text as a test reads it: parts that nothing sets are empty, and `unsure` becomes true.
  // Nothing if another part is unknown.
  std::optional<std::string> tested(const Text& text, bool& unsure) const;

  std::vector<Text> arguments;  // $1, $2, ...

 private:
  struct Unknown {
    std::string name;
    bool unset;
  };
  const Unknown* unknown_at(std::string_view bytes, std::size_t& at) const;

  std::map<std::string, Variable, std::less<>> variables_;
  std::vector<Unknown> unknowns_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
};

// Shell patterns: * ? [abc] [!a-z].
bool matches(std::string_view text, std::string_view pattern);

}  // namespace sim::shell
