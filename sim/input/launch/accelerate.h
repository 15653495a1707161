// accelerate.h — reads the YAML of Hugging Face accelerate: how parameters are sharded, by FSDP,
// DeepSpeed or not at all. read_launch_yaml calls it for files with `distributed_type`.
//
// Source: huggingface/accelerate src/accelerate/utils/dataclasses.py, utils/launch.py.
#pragma once

#include <string>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_values.h"

namespace sim::input {

LaunchFile read_accelerate(const LaunchValues& values, const std::string& text,
                           const std::string& path);

}  // namespace sim::input
