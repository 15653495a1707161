// nemo_script.h — reads Python scripts that train with NeMo 2.
//
// read_launch calls it for Python text. python/run.h follows the script without Python. The objects
// of the training call (llm.pretrain, llm.train, a recipe) become keys, which megatron_keys.h reads
// as those of NeMo's YAML. workloads/launchers/nemo-2.textproto has the values of NeMo's classes
// and recipes (`preset`).
//
// Source of the names: NVIDIA/NeMo v2.4.0 nemo/lightning, nemo/collections/llm.
#pragma once

#include <string>

#include "sim/input/launch/launch.h"

namespace sim::input {

LaunchFile read_nemo_script(const std::string& text, const std::string& path);

// True if the text is Python, by its first line that is no comment.
bool is_python(std::string_view text);

}  // namespace sim::input
