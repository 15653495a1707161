// syntax.h — parses a shell script into a tree.
//
// follow.cpp calls `parse` for the script and for each sourced text. Words stay as written, with
// their quotes; expand.h expands them. The tree refers to the text, so the text must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::shell {

// A word as written.
struct Raw {
  std::string_view text;  // view into the script
  std::size_t at = 0;
};

struct Assignment {
  std::string name;
  Raw index;               // index of NAME[index]=
  bool append = false;     // +=
  bool array = false;      // =( ... )
  std::vector<Raw> words;  // one word, or the elements of an array
};

struct HereDocument {
  Raw body;
  bool quoted = false;  // quoted delimiter: nothing is expanded
};

struct Node {
  enum class Kind : std::uint8_t {
    simple,
    sequence,     // commands in order; also a pipeline, { } and ( )
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
  Raw output;  // target of >
};

// The tree of a script. Text that the parser cannot read is left out. `truncated` is set if a limit
// is exceeded.
Node parse(std::string_view text, bool& truncated);

// One past the end of the quoted or bracketed text that starts at `at`: '...', "...", `...`,
// $(...), ${...}.
std::size_t skip_quoted(std::string_view text, std::size_t at);

// One past the ) that closes the ( at `at`.
std::size_t skip_brackets(std::string_view text, std::size_t at);

bool is_name_start(char c);
bool is_name(char c);
bool is_blank(char c);

}  // namespace sim::shell
