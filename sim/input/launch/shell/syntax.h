// syntax.h — a shell script as a tree. Words stand as they are written, quotes and all; expand.h
// gives them their values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::shell {

struct Raw {
  std::string_view text;  // of the script
  std::size_t at = 0;
};

struct Assignment {
  std::string name;
  Raw index;               // of NAME[index]=
  bool append = false;     // +=
  bool array = false;      // =( ... )
  std::vector<Raw> words;  // one, or the elements of an array
};

struct HereDocument {
  Raw body;
  bool quoted = false;  // nothing is expanded
};

struct Node {
  enum class Kind : std::uint8_t {
    simple,
    sequence,     // also a pipeline, { } and ( )
    both,         // &&
    either,       // ||
    negated,      // !
    branch,       // parts: condition, body, condition, body, ..., and an odd last one for `else`
    loop,         // for: words are what it runs over, parts the body
    repeat,       // while: parts are the condition and the body; until: the condition is negated
    choice,       // case: words the subject; parts the arms, each with its patterns as words
    function,     // name; parts the body
    arithmetic,   // (( ))
    conditional,  // [[ ]]
  };
  Kind kind = Kind::sequence;
  std::size_t at = 0;
  std::string name;
  std::vector<Assignment> assignments;
  std::vector<Raw> words;
  std::vector<Node> parts;
  std::vector<HereDocument> documents;
  Raw output;  // the file that > names
};

// What the parser cannot read is left out.
Node parse(std::string_view text, bool& truncated);

// The end of the quoted or bracketed thing that starts at `at` ('...', "...", `...`, $(...),
// ${...}), one past its last character.
std::size_t skip_quoted(std::string_view text, std::size_t at);

// One past the ) that closes the ( at `at`.
std::size_t skip_brackets(std::string_view text, std::size_t at);

bool is_name_start(char c);
bool is_name(char c);
bool is_blank(char c);

}  // namespace sim::shell
