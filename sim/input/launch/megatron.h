// megatron.h — what a launch script trains: the arguments of Megatron-LM and its relatives as
// settings of a plan.
//
// The script is followed as a shell would (sim/shell), and nothing is run. The command that starts
// a training program is found, its flags are looked up in one table (megatron_flags.h), and what
// the launcher (torchrun, srun, mpirun, deepspeed, #SBATCH) says about the number of GPUs is added.
//
// Source of the flags and their defaults: NVIDIA/Megatron-LM 23.06 and core 0.8-0.14,
// megatron/training/arguments.py; Megatron-DeepSpeed, megatron/arguments.py.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/launch/shell/script.h"

namespace sim::input {

// A setting whose value the script does not say. It is asked for where nothing else gives it.
struct Missing {
  std::string setting;  // "tp", "architecture.layers"
  Diagnostic problem;
};

struct MegatronArguments {
  std::vector<Setting> settings;
  std::vector<Missing> missing;
  std::vector<std::string> notes;  // what matters to a run and is not simulated
  Diagnostics problems;
  // What holds where the script is silent (workloads/frameworks); "": the plan's own defaults.
  std::string framework = "megatron-lm";
};

// A flag as it is given: the words up to the next flag.
struct Given {
  std::vector<shell::Word> values;
  shell::Word flag;

  std::string value() const { return values.empty() ? "" : values.front().text; }
};
using Flags = std::map<std::string, Given, std::less<>>;  // by name: no dashes, '_' as '-'

// The command that trains, and what surrounds it.
struct Launch {
  std::string program;  // "pretrain_gpt.py"; "" for arguments pasted by themselves
  shell::Word program_word;
  Flags flags;     // of the program
  Flags launcher;  // of what stands before it, and of #SBATCH
  std::map<std::string, shell::Word, std::less<>> environment;
  std::vector<shell::Word> lost;  // words that stand for arguments nobody knows: $EXTRA_ARGS
  int started = 0;                // commands that train; the first one is taken
};
Launch find_launch(const shell::Script& script);

MegatronArguments read_megatron(const std::string& text, const std::string& path);

}  // namespace sim::input
