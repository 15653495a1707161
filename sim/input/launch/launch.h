// launch.h — what people start a training run with, whatever program reads it: launch scripts of
// Megatron-LM and its relatives, Megatron-LM's own test configurations (MODEL_ARGS), the YAML of
// NeMo, Megatron-Bridge and Hugging Face accelerate, the JSON of DeepSpeed, the TOML of torchtitan.
//
// Invariants
//  (1) Bounded: structured files up to max_launch_bytes, nested up to max_launch_depth, at most
//      max_launch_values values; aliases cost their size each time they are followed.
//  (2) Nothing is lost in silence: what is not read is named in a note.
#pragma once

#include <nlohmann/json_fwd.hpp>
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

// That nothing could be read of: one problem, at `where`.
LaunchFile refused_launch(std::string where, std::string message);

// By its name a script, YAML or TOML: never a plan. JSON may be other things.
bool named_as_launch(std::string_view path);

// Each format by itself.
LaunchFile read_launch_yaml(const std::string& text, const std::string& path);
LaunchFile read_deepspeed(const std::string& text, const std::string& path);
LaunchFile read_torchtitan(const std::string& text, const std::string& path);

// Whether DeepSpeed is told to add gradients up, or to send them, in fp32; without a word it does
// both in the type of the model [runtime/engine.py: get_data_types, communication_data_type;
// inference/config.py: DtypeEnum].
bool asks_for_fp32_gradients(const nlohmann::json& deepspeed);

}  // namespace sim::input
