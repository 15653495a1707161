#include "sim/input/launch/script_words.h"

#include <algorithm>
#include <set>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/megatron.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

namespace {

// The word as a shell reads it back. Unknown parts keep their expansion; a word that is nothing
// else may stand for several.
std::string quoted(const shell::Word& word, std::string_view text) {
  const bool plain = text.find_first_of(" \t\n()[]{}*|&;<>$'\"\\`?#~!") == std::string_view::npos;
  if (plain && !text.empty()) return std::string(text);
  if (word.unknowns.size() == 1 && word.unknowns.front() == text) return std::string(text);
  const bool expands = !word.unknowns.empty();
  std::string out(1, expands ? '"' : '\'');
  for (const char c : text) {
    if (!expands && c == '\'') {
      out += "'\\''";
      continue;
    }
    if (expands && (c == '"' || c == '\\')) out += '\\';
    out += c;
  }
  return out + out.front();
}

// Variables that the script exports, or gives to the training command.
std::set<std::string> environment_names(const shell::Script& script, const Launch& launch) {
  std::set<std::string> names = script.exported;
  for (const shell::Command& command : script.commands) {
    const auto program =
        std::ranges::find(command.words, launch.program_word.text, &shell::Word::text);
    if (launch.program_word.text.empty() || program == command.words.end()) continue;
    for (const shell::Word& word : command.assignments)
      names.insert(word.text.substr(0, word.text.find('=')));
    for (auto word = command.words.begin(); word != program; ++word)  // env NAME=value
      if (word->text.find('=') != std::string::npos && !word->text.starts_with('-'))
        names.insert(word->text.substr(0, word->text.find('=')));
  }
  return names;
}

}  // namespace

std::optional<ScriptWords> script_words(const std::string& path) {
  const Result<std::string> text = read_file(path, shell::max_text);
  if (!text || !is_script(*text, path)) return std::nullopt;
  const shell::Script script = follow_script(*text, path);
  const Launch launch = find_launch(script);
  if (!launch.by.empty() || launch.flags.empty()) return std::nullopt;
  ScriptWords words;
  const std::string& program = launch.program_word.text;
  words.program = program.empty() ? "pretrain_gpt.py" : quoted(launch.program_word, program);
  if (!program.empty() && !program.ends_with(".py")) words.program.insert(0, "-m ");
  std::vector<const Flags::value_type*> flags;
  for (const auto& one : launch.flags) flags.push_back(&one);
  std::ranges::stable_sort(flags, {}, [](const auto* one) { return one->second.flag.at; });
  for (const auto* one : flags) {
    const Given& given = one->second;
    ScriptFlag flag{one->first, given.flag.text.substr(0, given.flag.text.find('=')), false};
    for (const shell::Word& value : given.values) {
      flag.text += " " + quoted(value, value.text);
      flag.is_unknown = flag.is_unknown || !value.unknowns.empty();
    }
    words.flags.push_back(std::move(flag));
  }
  for (const shell::Word& lost : launch.lost) words.others.push_back(lost.text);
  const std::set<std::string> names = environment_names(script, launch);
  for (const auto& [name, word] : launch.environment)
    if (names.contains(name))
      words.environment.emplace_back(
          name, quoted(word, std::string_view(word.text).substr(word.text.find('=') + 1)));
  return words;
}

}  // namespace sim::input
