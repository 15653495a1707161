// deepspeed_config.h — reads DeepSpeed's JSON configuration.
//
// read_deepspeed (launch.h) reads one as the launch file; the Translator reads the file that
// --deepspeed_config names. workloads/launchers/deepspeed.textproto says what each key does; this
// file joins the keys that depend on each other.
//
// Source: deepspeedai/DeepSpeed docs/_pages/config-json.md; runtime/zero/config.py;
// runtime/engine.py: get_data_types, communication_data_type; inference/config.py: DtypeEnum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/result.h"
#include "sim/input/launch/launch_values.h"

namespace sim::input {

struct DeepSpeedConfig {
  LaunchValues values;  // by path: "zero_optimization.stage"
  Diagnostics problems;
  bool is_no_json = false;  // the text is no JSON object

  std::optional<int> stage;  // ZeRO stage; nothing: the file does not say (0)
  bool fp16 = false, bf16 = false;
  bool auto_precision = false;      // "auto": the Trainer's arguments decide
  bool offloads_optimizer = false;  // states on the CPU
  double offload_ratio = 1;
  bool fp32_gradients = false;  // gradients are accumulated or sent in fp32

  const LaunchValue* find(std::string_view path) const {
    const auto found = values.find(path);
    return found == values.end() ? nullptr : &found->second;
  }
  bool is_true(std::string_view path) const;
  bool is_false(std::string_view path) const;
  std::int64_t whole(std::string_view path) const;  // 0: missing, or no whole number above 0
};

// `path`: for diagnostics. All problems at once.
DeepSpeedConfig read_deepspeed_config(const std::string& text, const std::string& path);

// Settings of DeepSpeed's file for a run of the transformers library's Trainer, which resolves its
// "auto" values from its own arguments. They set nothing here.
struct MegatronArguments;
MegatronArguments read_deepspeed_of_trainer(const std::string& text, const std::string& path);

// A file that a launch file or script names: relative to its folder, or to a folder above it.
struct NamedFile {
  std::string path, text;
};
std::optional<NamedFile> above(const std::string& launch_file, const std::string& name);

}  // namespace sim::input
