// script.h — what a shell script would run, found without running anything.
//
// A script is parsed (syntax.h) and followed command by command: variables, arrays, quotes,
// ${X:-default} and its relatives, $(( )), if, for, while, case, functions, here-documents. No
// program is started; files that it reads with `source`, or hands to sbatch, are followed as far as
// the caller has their text. What only a program, the environment or an argument
// could say is unknown, and every word knows the unknown things that it depends on.
//
// Invariants
//  (1) Bounded: text, nesting, commands followed and bytes expanded have limits; what lies beyond
//      them is left out and `truncated` says so.
//  (2) A condition that depends on something unknown is `undecided`; the caller may follow the
//      script again with other decisions.
//
// Source of the rules: POSIX.1-2017, Shell Command Language; Bash Reference Manual 5.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sim::shell {

constexpr std::size_t max_text = 1 << 20;

// A word of a command after all expansions.
struct Word {
  std::string text;                   // what is unknown stands as it is written: "$NNODES"
  std::size_t at = 0;                 // byte of the script where its first character is written
  std::vector<std::string> unknowns;  // "$NNODES", "$(nproc)"
};

struct Command {
  std::vector<Word> assignments;  // NAME=value before it
  std::vector<Word> words;
};

struct Undecided {
  std::size_t at = 0;
  bool taken = false;
  friend bool operator==(const Undecided&, const Undecided&) = default;
};

struct Script {
  std::vector<Command> commands;  // in the order in which they would run
  std::map<std::string, std::vector<Word>, std::less<>> variables;  // at the end, split into words
  std::map<std::string, std::string, std::less<>> files;  // written by here-documents and echo
  std::vector<Word> sourced;            // files that the script reads and that are not followed
  std::vector<Undecided> undecided;     // conditions
  std::vector<std::size_t> loops;       // `for` over several words: followed for the first
  std::vector<std::string> directives;  // "#SBATCH --nodes=4" and the like, as they stand
  bool truncated = false;
};

// The text of a file that a script reads with `source` or submits; none: it is not followed.
using Sourced = std::function<std::optional<std::string>(const Word& path)>;

// `flipped`: conditions (their `at`) to be decided the other way. What a sourced file says stands
// where the script reads it.
Script follow(std::string_view text, const std::set<std::size_t>& flipped = {},
              const Sourced& sourced = {});

// Line and column, from 1, of a byte of the text.
struct Place {
  int line = 1, column = 1;
};
Place place(std::string_view text, std::size_t at);

}  // namespace sim::shell
