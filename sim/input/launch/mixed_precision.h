// mixed_precision.h — recipes of mixed precision that a configuration of Megatron-Bridge names:
// `mixed_precision: bf16_with_fp8_delayed_scaling_mixed`.
//
// launch_yaml.cpp calls it. The recipes are presets of workloads/launchers/megatron-bridge.
#pragma once

#include <string>
#include <vector>

#include "sim/input/launch/launch_values.h"
#include "sim/input/launch/megatron.h"

namespace sim::input {

// Replaces the name of a recipe by its fields, "mixed_precision.fp8_recipe". Fields of the file
// stay. A name that is no recipe stays too.
LaunchValues with_mixed_precision(LaunchValues values);

// Says that parameters are not held in fp8, if the recipe or the file says so: without it the
// framework's default applies.
void add_fp8_parameters(const LaunchValues& values, const std::string& path,
                        MegatronArguments& out);

}  // namespace sim::input
