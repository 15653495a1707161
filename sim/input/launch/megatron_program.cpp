// megatron_program.cpp — which program a launch starts: one that trains a decoder, or another one.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/input/launch/megatron_flags.h"
#include "sim/base/ascii.h"
#include "sim/input/launch/megatron_translator.h"

namespace sim::input {
namespace {

// Name parts of programs that train something other than a GPT, or do not train.
struct Other {
  std::string_view part, what;
};
constexpr std::array others{
    Other{"bert", "BERT"},
    Other{"t5", "T5"},
    Other{"ict", "a retriever"},
    Other{"retro", "RETRO"},
    Other{"realm", "a retriever"},
    Other{"mamba", "a network with state-space layers"},
    Other{"hybrid", "a network with state-space layers"},
    Other{"vision", "a vision network"},
    Other{"vit", "a vision network"},
    Other{"vlm", "a multimodal network"},
    Other{"llava", "a multimodal network"},
    Other{"multimodal", "a multimodal network"},
    Other{"mimo", "a multimodal network"},
    Other{"omni", "a multimodal network"},
    Other{"diffusion", "a diffusion network"},
    Other{"prefix_lm", "a network whose attention sees a prefix whole"},
    Other{"train_rl", "by reinforcement learning"},
    Other{"grpo", "by reinforcement learning"},
    Other{"ppo", "by reinforcement learning"},
    Other{"dpo", "by preferences"},
    Other{"rm", "a reward model"},
    Other{"reward", "a reward model"},
    Other{"inference", "nothing"},
    Other{"generat", "nothing"},
    Other{"server", "nothing"},
    Other{"eval", "nothing"},
    Other{"evaluat", "nothing"},
    Other{"convert", "nothing"},
    Other{"create", "nothing"},
    Other{"preprocess", "nothing"},
    Other{"checkpoint", "nothing"},
    Other{"export", "nothing"},
    Other{"quantize", "nothing"},
    Other{"prune", "nothing"},
    Other{"mmlu", "nothing"},
    Other{"heterogeneous", "on stages with unlike GPUs or degrees"},
    Other{"tasks", "a task with a head of its own"},
    Other{"orqa", "a retriever"},
    Other{"msdp", "a task with a head of its own"},
};

// True if the name contains `part` as a word.
bool has_part(std::string_view program, std::string_view part) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  for (std::size_t at = program.find(part); at != std::string_view::npos;
       at = program.find(part, at + 1)) {
    const bool starts = at == 0 || !letter(program[at - 1]);
    const std::size_t end = at + part.size();
    if (starts && (part.size() > 4 || end == program.size() || !letter(program[end]))) return true;
  }
  return false;
}

// The name with its two parent folders: "examples/multimodal/train.py".
std::string with_folders(const std::string& word, const std::string& name) {
  std::size_t start = word.size();
  for (int up = 0; up < 3 && start != std::string::npos && start > 0; ++up)
    start = word.rfind('/', start - 1);
  if (!word.ends_with(name)) return name;
  return word.substr(start == std::string::npos || start == word.size() ? 0 : start + 1);
}

}  // namespace

// Refuses a program that trains something other than a decoder, or nothing.
void Translator::other_program() {
  // If the program's name has no "gpt" or "llama", its folders count too.
  std::string name = launch_.program;
  if (name.find("gpt") == std::string::npos && name.find("llama") == std::string::npos)
    name = with_folders(launch_.program_word.text, name);
  name = lower(name);
  for (const Other& other : others)
    if (has_part(name, other.part))
      return refuse(launch_.program_word, fmt::format("{} trains {}, and only GPTs are simulated",
                                                      launch_.program, other.what));
  if (launch_.by.empty() && !name.empty() && name.find("gpt") == std::string::npos &&
      name.find("llama") == std::string::npos)
    say(fmt::format("{} is read as a program that trains a GPT with Megatron-LM's arguments",
                    launch_.program));
  if (launch_.started > 1)
    say(fmt::format("the script trains {} times; the first one is simulated", launch_.started));
}

void Translator::lost_words() {
  for (const shell::Word& word : launch_.lost) {
    if (word.text.starts_with("$(") || word.text.starts_with('`'))
      refuse(word, fmt::format("{} gives flags that only the run knows; write them in the script",
                               word.text.substr(0, 80)));
    else
      say(fmt::format("{}: nothing in the script says what {} holds; it is taken as empty",
                      where(word), word.text));
  }
}

void Translator::sourced_files() {
  // Files that set up a shell do not affect a run.
  constexpr std::array<std::string_view, 6> of_shells = {"activate", "conda",   "bashrc",
                                                         "/etc/",    "profile", "modules"};
  const bool launches = !launch_.program.empty() || !launch_.flags.empty();
  for (const shell::Word& word : script_.sourced) {
    if (std::any_of(of_shells.begin(), of_shells.end(), [&](std::string_view part) {
          return word.text.find(part) != std::string::npos;
        }))
      continue;
    const std::string unread = fmt::format("{} is not read", word.text.substr(0, 80));
    if (launches)
      say(fmt::format("{}: {}", where(word), unread));
    else
      refuse(word, unread + ", and nothing else launches a run; put it beside the script");
  }
}

void Translator::program() {
  other_program();
  if (!out_.problems.empty()) return;
  lost_words();
  sourced_files();
  const bool launches = !launch_.program.empty() || !launch_.flags.empty();
  if (launches || !out_.problems.empty()) return;
  std::string lost;
  for (const shell::Word& word : launch_.lost)
    lost += fmt::format("{} {}", lost.empty() ? "; nobody says what is in" : ",", word.text);
  out_.problems.push_back(
      {path_, fmt::format("none of its commands trains with arguments of Megatron-LM "
                          "(--num-layers, --micro-batch-size, ...) or of the Trainer "
                          "(--per_device_train_batch_size, ...){}",
                          lost)});
}

// Refuses a program with many arguments that no version of Megatron-LM and no fork has.
bool Translator::is_unknown_program() {
  constexpr std::size_t few = 4;
  std::vector<std::string> unknown;
  for (const auto& [name, given] : launch_.flags)
    if (flag_meaning(name).effect == FlagEffect::unknown) unknown.push_back("--" + name);
  const bool is_gpt = has_part(launch_.program, "pretrain") || has_part(launch_.program, "gpt") ||
                      launch_.program.empty();
  if (unknown.size() < few || (is_gpt && unknown.size() * 4 < launch_.flags.size())) return false;
  const std::size_t left = unknown.size() - few;
  unknown.resize(few);
  refuse(launch_.program_word,
         fmt::format("{} has arguments that no version of Megatron-LM has ({} and {} more): it is "
                     "another program; write the settings instead: model= tp= micro_batch= ...",
                     launch_.program.empty() ? "the command" : launch_.program,
                     fmt::join(unknown, ", "), left));
  return true;
}

}  // namespace sim::input
