// expand.h — expands a word of a script: parameters, arithmetic, quotes, splitting at blanks.
//
// follow.cpp creates an Expander for each text. Expansion never runs a program: a command
// substitution gives unknown text. `budget` bounds the bytes of all expansions together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/input/launch/shell/environment.h"
#include "sim/input/launch/shell/syntax.h"

namespace sim::shell {

class Expander {
 public:
  // `places`: the script's place for each byte of the text; null if the text is the script itself.
  Expander(Environment& environment, const std::vector<std::uint32_t>* places, std::int64_t& budget)
      : environment_(environment), places_(places), budget_(budget) {}

  std::vector<Text> fields(const Raw& word);  // split at unquoted blanks
  std::vector<Text> fields(const std::vector<Raw>& words);
  Text single(const Raw& word);    // not split
  Text document(const Raw& body);  // body of a here-document: quotes are plain characters

  std::size_t place(std::size_t at) const;

 private:
  struct Sink;
  enum class Quoting : std::uint8_t { none, text, document };

  void walk(std::string_view text, std::size_t at, Quoting quoting, Sink& sink);
  std::size_t dollar(std::string_view text, std::size_t i, std::size_t at, bool quoted, Sink& sink);
  void parameter(std::string_view inside, std::size_t at, bool quoted, Sink& sink);
  void count(std::string_view inside, std::size_t at, bool quoted, Sink& sink);
  Text printed(const HereDocument& from, std::size_t at);
  void substitution(std::string_view inside, std::size_t at, bool quoted, Sink& sink);
  void value(std::string_view name, std::string_view index, std::size_t at, bool quoted,
             Sink& sink);
  bool known(std::string_view name, std::string_view index, std::vector<Text>& values);
  Text argument(std::string_view word, std::size_t at);
  Text transformed(const Text& value, std::string_view operation, std::size_t at);
  Text sum(std::string_view expression, std::size_t at);

  Environment& environment_;
  const std::vector<std::uint32_t>* places_;
  std::int64_t& budget_;
  int depth_ = 0;
};

}  // namespace sim::shell
