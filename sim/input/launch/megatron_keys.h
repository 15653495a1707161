// megatron_keys.h — reads keys that name Megatron-LM's flags: of NeMo's, Megatron-Bridge's and
// FlagScale's YAML, and of NeMo 2's scripts.
//
// launch_yaml.cpp defines it. nemo_script.cpp calls it with the keywords of a script as keys:
// "trainer.strategy.tensor_model_parallel_size".
#pragma once

#include <string>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_values.h"

namespace sim::input {

// `text` and `path`: of the file, for places. Keys without a meaning are named in a note.
LaunchFile read_megatron_keys(const LaunchValues& values, const std::string& text,
                              const std::string& path);

}  // namespace sim::input
