// nemo_script.h — reads Python scripts that train with NeMo 2.
//
// read_launch calls it for Python text. python/run.h follows the script without Python; the objects
// of the training call (llm.pretrain, llm.train, a recipe) then become keys, with which
// megatron_keys.h reads NeMo's YAML as well. The values that a class or a recipe of NeMo brings
// stand in workloads/launchers/nemo-2.textproto (`preset`).
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
