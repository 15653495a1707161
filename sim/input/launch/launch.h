// launch.h — reads launch scripts and launch configurations of training programs, as settings of a
// plan.
//
// `--megatron-args FILE` and load_megatron (plan/plan.h) call read_launch. The first line that is
// no comment selects the format; the suffix only where the text does not tell:
//   YAML    Megatron-LM test configuration (MODEL_ARGS), NeMo, Megatron-Bridge, FlagScale, HF
//           accelerate, and the programs of workloads/launchers
//   JSON    DeepSpeed configuration
//   TOML    torchtitan
//   Python  NeMo 2
//   other   shell script of Megatron-LM and its forks
//
// Invariants
//  (1) Bounded: structured files up to max_launch_bytes, nested up to max_launch_depth, at most
//      max_launch_values values. A YAML alias counts its size each time it is used.
//  (2) Every setting that is not translated is named in a note or an error.
#pragma once

#include <string>

#include "sim/input/launch/megatron.h"

namespace sim::input {

constexpr std::size_t max_launch_bytes = 1 << 20;
constexpr int max_launch_depth = 16;
constexpr std::size_t max_launch_values = 4096;

struct LaunchFile {
  MegatronArguments arguments;
};

LaunchFile read_launch(const std::string& text, const std::string& path);

// A file that cannot be read: one problem at `where`.
LaunchFile refused_launch(std::string where, std::string message);

// True if the suffix is that of a script, YAML, TOML or Python: never a plan. JSON may be another
// kind of file.
bool named_as_launch(std::string_view path);

// One function for each format. Errors are in `arguments.problems`.
LaunchFile read_launch_yaml(const std::string& text, const std::string& path);
LaunchFile read_deepspeed(const std::string& text, const std::string& path);
LaunchFile read_torchtitan(const std::string& text, const std::string& path);

// True if read_launch reads the text as a shell script.
bool is_script(std::string_view text, std::string_view path);

// True if a text is a script, YAML, TOML or Python by its first line. JSON may be another kind of
// file.
bool is_launch_text(std::string_view text);

}  // namespace sim::input
