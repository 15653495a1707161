// launch_values.h — the values of a structured launch file (YAML, TOML, JSON) by the path of their
// keys: "model.optim.name".
//
// The readers of launch.h create them, and launch_files.h translates them. References of OmegaConf
// are resolved where the file gives the answer: ${oc.env:TP,4} is 4, because its default counts.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/launch/shell/script.h"

namespace sim::input {

// A scalar or a list of scalars.
struct LaunchValue {
  std::vector<std::string> words;
  std::size_t at = 0;  // byte offset in the file
  bool is_list = false;
  bool is_unknown = false;  // a shell's variable that the script does not define

  const std::string& text() const {
    static const std::string none;
    return words.empty() ? none : words.front();
  }
};
using LaunchValues = std::map<std::string, LaunchValue, std::less<>>;

// The values of a YAML text. Throws YAML::Exception with the place of the error.
LaunchValues yaml_values(const std::string& text);

// Replaces the references of OmegaConf in all values. A reference without an answer stays.
void resolve_references(LaunchValues& values);

// "true", "yes", "on" (any case).
bool is_true_word(std::string_view text);
// "", "false", "no", "off", "null", "none", "~" (any case). 0 is a number: see is_off_value.
bool is_off_word(std::string_view text);
// is_off_word, or the number 0.
bool is_off_value(std::string_view text);
// The outermost ${...} of a text, its inner braces included; "" if there is none.
std::string reference_of(std::string_view text);

// The text as a word of a script. A reference without an answer is unknown.
shell::Word word_of(const std::string& text, std::size_t at);

// True if a key has this path, or a path below it.
bool has_path(const LaunchValues& values, std::string_view path);

}  // namespace sim::input
