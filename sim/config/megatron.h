// megatron.h — reads the arguments of a Megatron-LM launch script as pasted.
//
// The text is split as a shell would: words, quotes, backslash-newline, comments. NAME=value words
// become variables, $NAME and ${NAME} are replaced by them; what cannot be replaced is a problem
// only where a plan needs it. Nothing is executed.
//
// Source of the flags and their defaults: NVIDIA/Megatron-LM core 0.8-0.9,
// megatron/training/arguments.py.
#pragma once

#include <string>
#include <vector>

#include "sim/config/plan_fields.h"

namespace sim::config {

struct MegatronArguments {
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // flags that matter to a run and are not simulated
  Diagnostics problems;
};

// A word of a script, quotes removed and variables replaced.
struct Word {
  std::string text;
  int line = 1, column = 1;
  std::string unknown_variable;  // the first that has no value
};
std::vector<Word> shell_words(const std::string& text);

MegatronArguments read_megatron(const std::string& text, const std::string& path);

// What Megatron-LM assumes where a script says nothing.
rehearse::v1::Plan megatron_defaults();

}  // namespace sim::config
