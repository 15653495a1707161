// megatron_launch.cpp — selects the command of a script that trains, and collects its flags.
#include <algorithm>
#include <array>
#include <cctype>

#include "sim/input/launch/launch_files.h"
#include "sim/input/launch/megatron.h"
#include "sim/input/launch/megatron_flags.h"
#include "sim/input/launch/shell/directives.h"

namespace sim::input {
namespace {

bool is_flag(std::string_view text) {
  return text.size() > 2 && text.starts_with("--") &&
         (std::isalpha(static_cast<unsigned char>(text[2])) != 0);
}

std::string flag_name(std::string_view flag) {
  while (flag.starts_with('-')) flag.remove_prefix(1);
  std::string text(flag.substr(0, flag.find('=')));
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// The program of a path: "pretrain_gpt.py" for "/workspace/megatron/pretrain_gpt.py"; "" for other
// words.
std::string program_of(std::string_view word) {
  if (word.size() < 4 || !word.ends_with(".py")) return "";
  const std::size_t slash = word.find_last_of('/');
  return std::string(word.substr(slash == std::string_view::npos ? 0 : slash + 1));
}

// The program of `python -m examples.offline_inference`: "offline_inference.py"; "" for a launcher.
std::string module_of(std::string_view word) {
  if (word.starts_with("torch.") || word.starts_with("deepspeed") || word.starts_with("accelerate"))
    return "";
  return std::string(word.substr(word.find_last_of('.') + 1)) + ".py";
}

// True for a word that is one unknown value and may contain flags: $EXTRA_ARGS, $(cat args.txt).
bool may_hold_flags(const shell::Word& word) {
  return word.unknowns.size() == 1 && word.unknowns.front() == word.text &&
         (word.text.starts_with('$') || word.text.starts_with('`'));
}

bool is_substitution(const shell::Word& word) {
  return word.text.starts_with("$(") || word.text.starts_with('`');
}

// True for flags of data and logs, whose lists of values may come from a program.
bool is_without_effect(std::string_view flag) {
  return flag_meaning(flag).effect == FlagEffect::harmless;
}

bool takes_no_value(std::string_view flag) {
  const FlagMeaning meaning = flag_meaning(flag);
  return meaning.effect == FlagEffect::mapped && !meaning.text.ends_with('=');
}

void read_flags(const std::vector<shell::Word>& words, std::size_t from, std::size_t to,
                Launch& launch, Flags& flags) {
  Given* open = nullptr;
  for (std::size_t i = from; i < to; ++i) {
    const shell::Word& word = words[i];
    if (is_flag(word.text)) {
      const std::size_t equals = word.text.find('=');
      Given given{{}, word};
      if (equals != std::string::npos) {
        shell::Word value = word;
        value.text.erase(0, equals + 1);
        given.values.push_back(std::move(value));
      }
      open = &(flags[flag_name(word.text)] = std::move(given));
      continue;
    }
    const bool nothing_expected =
        !open || !open->values.empty() || takes_no_value(flag_name(open->flag.text));
    const bool is_listed =
        open && is_substitution(word) && is_without_effect(flag_name(open->flag.text));
    if (may_hold_flags(word) && nothing_expected && !is_listed) {
      launch.lost.push_back(word);
      continue;
    }
    if (open) open->values.push_back(word);
  }
}

constexpr std::array telling{
    std::string_view{"num-layers"},         std::string_view{"hidden-size"},
    std::string_view{"micro-batch-size"},   std::string_view{"tensor-model-parallel-size"},
    std::string_view{"seq-length"},         std::string_view{"use-checkpoint-args"},
    std::string_view{"encoder-seq-length"}, std::string_view{"global-batch-size"},
};

bool trains(const Flags& flags) {
  return std::any_of(telling.begin(), telling.end(),
                     [&](std::string_view name) { return flags.contains(name); });
}

// Short flags of srun and mpirun (-N 4, -np 8, -n 8), as flags with long names.
void short_options(const std::vector<shell::Word>& words, std::size_t to, Flags& flags) {
  constexpr std::array<std::array<std::string_view, 2>, 6> names = {{{"-N", "nodes"},
                                                                     {"-np", "ranks"},
                                                                     {"-n", "ranks"},
                                                                     {"--np", "ranks"},
                                                                     {"--ntasks", "ranks"},
                                                                     {"-npernode", "npernode"}}};
  for (std::size_t i = 0; i + 1 < to; ++i)
    for (const auto& [given, name] : names)
      if (words[i].text == given) flags[std::string(name)] = {{words[i + 1]}, words[i]};
}

// The nodes, GPUs and tasks that the directives of a batch system ask for.
void directives(const shell::Script& script, Flags& flags) {
  const shell::JobRequest job = shell::job_request(script.directives);
  const auto add = [&](const char* name, std::int64_t value) {
    shell::Word word;
    word.text = std::to_string(value);
    if (value > 0) flags.try_emplace(name, Given{{word}, word});
  };
  add("sbatch-nodes", job.nodes);
  add("sbatch-gpus-per-node", job.gpus_per_node);
  add("sbatch-ntasks-per-node", job.tasks_per_node);
}

void take(const shell::Command& command, std::size_t program, Launch& launch) {
  const auto& words = command.words;
  read_flags(words, program + 1, words.size(), launch, launch.flags);
  Launch before;
  read_flags(words, 0, program, before, launch.launcher);
  short_options(words, program, launch.launcher);
  for (const shell::Word& word : command.assignments)
    launch.environment[word.text.substr(0, word.text.find('='))] = word;
}

void environment(const shell::Script& script, Launch& launch) {
  for (const auto& [name, words] : script.variables) {
    if (words.empty()) continue;
    shell::Word word = words.front();
    word.text.insert(0, name + "=");
    launch.environment.try_emplace(name, word);
  }
  // mpirun -x NAME=value, env NAME=value.
  for (const shell::Command& command : script.commands)
    for (const shell::Word& word : command.words)
      if (const std::size_t equals = word.text.find('=');
          equals != std::string::npos && equals > 0 &&
          std::isupper(static_cast<unsigned char>(word.text[0])))
        launch.environment.try_emplace(word.text.substr(0, equals), word);
}

// The launcher that has a sign among these flags; "" if none has.
std::string launcher_by_flags(const Flags& flags) {
  LaunchValues values;
  for (const auto& [name, given] : flags) {
    std::string key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    values[key].words.emplace_back("given");
  }
  return launcher_of(values);
}

// Arguments without a program: all words of the text, and of variables that contain flags. If
// Megatron-LM knows none of them, they belong to another program.
void pasted(const shell::Script& script, Launch& launch) {
  std::vector<shell::Word> words;
  for (const shell::Command& command : script.commands)
    words.insert(words.end(), command.words.begin(), command.words.end());
  for (const auto& [name, held] : script.variables)
    if (std::any_of(held.begin(), held.end(), [](const auto& w) { return is_flag(w.text); }))
      words.insert(words.end(), held.begin(), held.end());
  read_flags(words, 0, words.size(), launch, launch.flags);
  for (const char* name : {"nnodes", "nproc-per-node"})
    if (auto node = launch.flags.extract(name)) launch.launcher.insert(std::move(node));
  if (!trains(launch.flags)) launch.by = launcher_by_flags(launch.flags);
  if (!launch.by.empty()) return;
  const auto known = [](const auto& flag) {
    return flag_meaning(flag.first).effect != FlagEffect::unknown;
  };
  if (std::ranges::none_of(launch.flags, known)) launch.flags.clear();
}

// The training command that starts at word `i`; nothing if none does.
std::optional<Launch> launch_at(const shell::Command& command, std::size_t i) {
  const auto& words = command.words;
  Launch one;
  const auto [by, size] = launcher_of(std::span(words).subspan(i));
  if (!by.empty()) {
    one.by = by;
    one.program = words[i].text;
    one.program_word = words[i];
    take(command, i + size - 1, one);
    if (i + size < words.size() && words[i + size].text.find(".y") != std::string::npos)
      one.file = words[i + size];
    return one;
  }
  one.program =
      i > 0 && words[i - 1].text == "-m" ? module_of(words[i].text) : program_of(words[i].text);
  if (one.program.empty()) return std::nullopt;
  one.program_word = words[i];
  take(command, i, one);
  if (!trains(one.flags)) one.by = launcher_by_flags(one.flags);
  return trains(one.flags) || !one.by.empty() ? std::optional(std::move(one)) : std::nullopt;
}

// A submitter gets the command after `--`; that command's program is the one that trains.
void take_submitted(const shell::Command& command, std::size_t from, Launch& launch) {
  bool is_inner = false;
  for (std::size_t i = from; i < command.words.size(); ++i) {
    const std::string program = program_of(command.words[i].text);
    if (is_inner && !program.empty()) {
      launch.program = program;
      launch.program_word = command.words[i];
      return;
    }
    is_inner = is_inner || command.words[i].text == "--";
  }
}

}  // namespace

Launch find_launch(const shell::Script& script) {
  Launch launch;
  for (const shell::Command& command : script.commands) {
    if (command.words.front().text == "echo" || command.words.front().text == "printf") continue;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      std::optional<Launch> one = launch_at(command, i);
      if (!one) continue;
      take_submitted(command, i + 1, *one);
      const int started = launch.started + 1;
      if (launch.started == 0) launch = std::move(*one);
      launch.started = started;
      break;
    }
  }
  if (launch.started == 0) pasted(script, launch);
  directives(script, launch.launcher);
  environment(script, launch);
  return launch;
}

}  // namespace sim::input
