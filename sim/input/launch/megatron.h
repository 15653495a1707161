// megatron.h — translates a launch script of Megatron-LM or a fork into settings of a plan.
//
// read_launch (launch.h) calls read_megatron for every file that is no YAML, JSON or TOML. Steps:
//  (1) shell/script.h follows the script as a shell would, without running anything.
//  (2) find_launch selects the command that starts the training program.
//  (3) Translator (megatron_translator.h) looks up each flag in the table of megatron_flags.h.
//  (4) The launcher (torchrun, srun, mpirun, deepspeed, #SBATCH) gives the number of GPUs.
//
// No program is started and no file is written.
//
// Source of the flags and their defaults: NVIDIA/Megatron-LM 23.06 and core 0.8-0.14,
// megatron/training/arguments.py; Megatron-DeepSpeed, megatron/arguments.py.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/launch/shell/script.h"

namespace sim::input {

// A setting whose value is unknown, because the script takes it from outside. It is an error unless
// the command line gives the value.
struct Missing {
  std::string setting;  // "tp", "architecture.layers"
  Diagnostic problem;
};

struct MegatronArguments {
  std::vector<Setting> settings;
  std::vector<Missing> missing;
  std::vector<std::string> notes;  // settings that affect a run but are not simulated
  Diagnostics problems;
  // Framework with the defaults (workloads/frameworks); "": the defaults of the plan.
  std::string framework = "megatron-lm";
  // Microbatches of each replica in a step, if the file gives them instead of a global batch.
  std::int64_t accumulation = 0;
  // Without `accumulation`: a step has at least so many sequences, in whole microbatches.
  std::int64_t least_batch = 0;
};

// A flag of the command and its values: the words up to the next flag.
struct Given {
  std::vector<shell::Word> values;
  shell::Word flag;

  std::string value() const { return values.empty() ? "" : values.front().text; }
};
using Flags = std::map<std::string, Given, std::less<>>;  // key: name without dashes, '_' as '-'

// The training command, its launcher and its environment.
struct Launch {
  std::string program;  // "pretrain_gpt.py"; "": flags only
  shell::Word program_word;
  Flags flags;     // flags of the program
  Flags launcher;  // flags of the launcher and of #SBATCH
  std::map<std::string, shell::Word, std::less<>> environment;
  std::vector<shell::Word> lost;  // words with unknown arguments: $EXTRA_ARGS
  int started = 0;                // number of training commands; the first is used
  // Launcher (workloads/launchers) with the meanings of the flags; "": flags of Megatron-LM.
  std::string by;
  shell::Word file;  // the YAML that the command names instead of flags; no text: none
};
Launch find_launch(const shell::Script& script);

// Follows the script, and the files beside it that it sources.
shell::Script follow_script(const std::string& text, const std::string& path,
                            const std::set<std::size_t>& flipped = {});

MegatronArguments read_megatron(const std::string& text, const std::string& path);

}  // namespace sim::input
