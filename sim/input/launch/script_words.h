// script_words.h — the words of a launch script of Megatron-LM: its program, flags and environment.
//
// The planner calls it to write a script with another plan: flags that a plan does not decide, such
// as data, tokenizer and learning rate, stay as the user wrote them.
//
// Invariant: the words are quoted for a shell. A value that the script takes from outside stays as
// it is written there: "$DATA_PATH".
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sim::input {

struct ScriptFlag {
  std::string name;         // without dashes, '_' as '-'
  std::string text;         // "--micro-batch-size 8"
  bool is_unknown = false;  // a value comes from outside
};

struct ScriptWords {
  std::string program;  // "pretrain_gpt.py", "-m megatron.pretrain"
  std::vector<ScriptFlag> flags;
  // Words that may hold flags and come from outside: "$EXTRA_ARGS".
  std::vector<std::string> others;
  std::vector<std::pair<std::string, std::string>> environment;  // that the processes get
};

// The words of the file's first training command. Nothing: the file is no script of Megatron-LM's
// flags, or it cannot be read.
std::optional<ScriptWords> script_words(const std::string& path);

}  // namespace sim::input
