// megatron_script.cpp — reads the script around a launch: sourced files, and conditions that stay
// unknown.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/input/launch/megatron.h"
#include "sim/input/launch/megatron_translator.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// The text of a file that the script sources: by its path from the script's folder. If the folder
// is unknown (`pwd`/CONFIG.sh): by its name.
std::optional<std::string> beside(const std::string& script, const shell::Word& word) {
  const std::filesystem::path named(word.text);
  if (named.is_absolute() && word.unknowns.empty()) return std::nullopt;
  const std::filesystem::path folder = std::filesystem::path(script).parent_path();
  const auto file = folder / (word.unknowns.empty() ? named : named.filename());
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  const Result<std::string> text = read_file(file.string(), shell::max_text);
  return text ? std::optional(*text) : std::nullopt;
}

bool says(const MegatronArguments& arguments, std::string_view field) {
  return std::ranges::any_of(arguments.settings, [&](const Setting& one) {
    return one.text.starts_with(field) && one.text.substr(field.size()).starts_with('=');
  });
}

// Says that a part of the script was not followed: a problem where no command trains, else a note.
void note_limit(const shell::Script& script, bool trains_not, const std::string& text,
                const std::string& path, MegatronArguments& arguments) {
  if (!script.limit) return;
  const shell::TextPosition at = shell::place(text, script.limit->at);
  const std::string where = fmt::format("{}:{}:{}", path, at.line, at.column);
  const std::string what = fmt::format(
      "{}: the rest is not followed; write the training command into a script of its own",
      script.limit->what);
  if (trains_not)
    arguments.problems.push_back({where, what});
  else
    arguments.notes.push_back(where + ": " + what);
}

}  // namespace

shell::Script follow_script(const std::string& text, const std::string& path,
                            const std::set<std::size_t>& flipped) {
  return shell::follow(text, flipped, [&](const shell::Word& word) { return beside(path, word); });
}

MegatronArguments read_megatron(const std::string& text, const std::string& path) {
  const shell::Script script = follow_script(text, path);
  const Launch launch = find_launch(script);
  MegatronArguments base = Translator(launch, script, text, path).run();
  note_limit(script, launch.program.empty(), text, path, base);
  // Decide each unknown condition the other way, one at a time, to see whether it matters.
  constexpr std::size_t most = 16;
  std::size_t tried = 0;
  for (const shell::Undecided& condition : script.undecided) {
    if (++tried > most) break;
    const shell::Script other_script = follow_script(text, path, {condition.at});
    const Launch other_launch = find_launch(other_script);
    if (other_launch.program.empty() && !launch.program.empty()) continue;
    MegatronArguments other = Translator(other_launch, other_script, text, path).run();
    if (launch.program.empty() && !other_launch.program.empty()) {
      base = std::move(other);
      break;
    }
    std::string changes;
    for (const Setting& setting : other.settings) {
      const bool same = std::any_of(base.settings.begin(), base.settings.end(),
                                    [&](const Setting& one) { return one.text == setting.text; });
      if (!same) changes += (changes.empty() ? "" : ", ") + setting.text;
    }
    if (changes.empty()) continue;
    const shell::TextPosition place = shell::place(text, condition.at);
    if (says(other, "precision") && !says(base, "precision"))
      base.missing.push_back(
          {"precision",
           {fmt::format("{}:{}:{}", path, place.line, place.column),
            "only the run decides this condition, and the precision depends on it; write "
            "precision="}});
    base.notes.push_back(fmt::format(
        "{}:{}:{}: a condition that only the run could decide is taken as {}; otherwise: {}", path,
        place.line, place.column, condition.taken ? "true" : "false", changes));
  }
  return base;
}

}  // namespace sim::input
