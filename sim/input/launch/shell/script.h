// script.h — finds the commands that a shell script would run, without running anything.
//
// read_megatron (launch/megatron.h) calls `follow`. A script is parsed (syntax.h) and followed
// command by command: variables, arrays, quotes, ${X:-default} and related forms, $(( )), if, for,
// while, case, functions, here-documents.
//
// No program is started. Files that the script reads with `source` or submits with sbatch are
// followed if the caller supplies their text. A value from a program, the environment or an
// argument is unknown. Every word lists the unknown values that it depends on.
//
// Invariants
//  (1) Bounded: text, nesting, rounds, followed commands and expanded bytes have limits. Everything
//      above them is left out, and `limit` is set.
//  (2) A condition that depends on an unknown value is `undecided`. The caller may follow the
//      script again with the other decision.
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
  std::string text;                   // unknown parts as written: "$NNODES"
  std::size_t at = 0;                 // byte offset of its first character
  std::vector<std::string> unknowns;  // "$NNODES", "$(nproc)"
};

struct Command {
  std::vector<Word> assignments;  // NAME=value before the command
  std::vector<Word> words;
};

struct Undecided {
  std::size_t at = 0;
  bool taken = false;
  friend bool operator==(const Undecided&, const Undecided&) = default;
};

// A limit that a script exceeds.
struct Limit {
  std::string what;    // "a loop of more than 1000 rounds"
  std::size_t at = 0;  // byte offset of what is not followed to its end
};

struct Script {
  std::vector<Command> commands;                                    // in execution order
  std::map<std::string, std::vector<Word>, std::less<>> variables;  // at the end
  std::set<std::string> exported;                                   // names of variables
  std::map<std::string, std::string, std::less<>> files;  // written by here-documents and echo
  std::vector<Word> sourced;                              // files of `source` that are not followed
  std::vector<Undecided> undecided;                       // conditions
  std::vector<std::size_t> loops;       // places of `for` loops over several words
  std::vector<std::string> directives;  // "#SBATCH --nodes=4" and similar lines
  std::optional<Limit> limit;           // the first one that was exceeded
};

// The text of a file that a script sources or submits; nothing: do not follow it.
using Sourced = std::function<std::optional<std::string>(const Word& path)>;

// Follows a script. `flipped`: offsets of conditions to decide the other way. `sourced`: supplies
// the text of sourced files; their words have the place of the `source` command.
Script follow(std::string_view text, const std::set<std::size_t>& flipped = {},
              const Sourced& sourced = {});

// Line and column of a byte of the text, counted from 1.
struct TextPosition {
  int line = 1, column = 1;
};
TextPosition place(std::string_view text, std::size_t at);

}  // namespace sim::shell
