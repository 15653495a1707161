// launch_deepspeed.cpp — reads DeepSpeed's JSON configuration as the launch file. The command line
// gives the model and the sequence.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/input/launch/deepspeed_config.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_files.h"

namespace sim::input {
namespace {

class DeepSpeedReader {
 public:
  DeepSpeedReader(const DeepSpeedConfig& config, const std::string& path, MegatronArguments& out)
      : config_(config), path_(path), out_(out) {}

  void run() {
    batch();
    precision();
    const int stage = config_.stage.value_or(0);
    set(fmt::format("zero={}", stage));
    if (const std::int64_t tp = config_.whole("tensor_parallel.autotp_size"); tp > 1)
      set(fmt::format("tp={}", tp));
    if (const LaunchValue* clip = config_.find("gradient_clipping");
        clip && is_off_value(clip->text()))
      set("gradient_clipping=false");
    if (config_.offloads_optimizer) offload(stage);
    // Gradients are accumulated and communicated in the type of the model [runtime/engine.py:
    // get_data_types, communication_data_type].
    const bool is_short = config_.fp16 || config_.bf16 || config_.auto_precision;
    if (stage >= 2 && is_short) set(fmt::format("fp32_gradients={}", config_.fp32_gradients));
    if (stage == 3) whole_shards(is_short);
  }

 private:
  void set(std::string setting) { out_.settings.push_back({std::move(setting), path_}); }
  void ask(const char* setting, const char* key, const char* by) {
    out_.missing.push_back(
        {setting,
         {path_,
          fmt::format("{} is \"auto\": the Trainer's {} decides; write {}=", key, by, setting)}});
  }
  bool is_auto(std::string_view key) const {
    const LaunchValue* value = config_.find(key);
    return value && value->text() == "auto";
  }

  void batch() {
    const std::int64_t micro = config_.whole("train_micro_batch_size_per_gpu");
    if (micro > 0) set(fmt::format("micro_batch={}", micro));
    if (is_auto("train_micro_batch_size_per_gpu"))
      out_.notes.push_back(
          "train_micro_batch_size_per_gpu is \"auto\": the Trainer's per_device_train_batch_size; "
          "micro_batch= says it, 1 without it");
    if (const std::int64_t global = config_.whole("train_batch_size"); global > 0)
      set(fmt::format("global_batch={}", global));
    else if (const std::int64_t steps = config_.whole("gradient_accumulation_steps"); steps > 0)
      out_.accumulation = steps;
    else if (is_auto("train_batch_size") || is_auto("gradient_accumulation_steps"))
      ask("global_batch", "train_batch_size",
          "per_device_train_batch_size x gradient_accumulation_steps x replicas");
  }

  void precision() {
    if (config_.auto_precision) return ask("precision", "bf16.enabled", "bf16 or fp16 argument");
    set(config_.fp16 ? "precision=fp16" : config_.bf16 ? "precision=bf16" : "precision=fp32");
    if (!config_.fp16 && !config_.bf16)
      out_.notes.push_back("neither fp16 nor bf16 is enabled: DeepSpeed trains in fp32");
  }

  void offload(int stage) {
    if (stage == 2) {
      out_.problems.push_back(
          {path_,
           "ZeRO stage 2 with its optimizer on the CPU is not simulated; write stage 3 or 1, "
           "or remove offload_optimizer"});
      return;
    }
    set("optimizer_cpu_offload=true");
    if (config_.offload_ratio < 1)
      set(fmt::format("optimizer_offload_fraction={}", config_.offload_ratio));
    if (stage < 3) set("precision_aware_optimizer=true");
  }

  void whole_shards(bool is_short) {
    const std::string zero = "zero_optimization.";
    if (is_short) {
      set("deepspeed_optimizer=true");
      if (config_.is_false(zero + "overlap_comm")) set("overlap_grad_reduce=false");
      if (config_.is_false(zero + "reduce_scatter")) set("deepspeed_all_reduce=true");
      if (const auto n = config_.whole(zero + "sub_group_size"); n > 0)
        set(fmt::format("optimizer_sub_group={}", n));
    }
    if (const auto n = config_.whole(zero + "zero_hpz_partition_size"); n > 1)
      set(fmt::format("fsdp.secondary={}", n));
    for (const char* key : {"quantized_weights", "quantized_gradients"})
      if (config_.is_true(zero + "zero_" + key)) set(fmt::format("fsdp.{}=true", key));
  }

  const DeepSpeedConfig& config_;
  const std::string& path_;
  MegatronArguments& out_;
};

}  // namespace

LaunchFile read_deepspeed(const std::string& text, const std::string& path) {
  const DeepSpeedConfig config = read_deepspeed_config(text, path);
  LaunchFile file;
  file.arguments.framework = "";
  file.arguments.problems = config.problems;
  if (config.values.empty()) {
    if (config.problems.empty()) return refused_launch(path, "an empty JSON object");
    return file;
  }
  constexpr std::array<std::string_view, 7> own = {"train_batch_size",
                                                   "train_micro_batch_size_per_gpu",
                                                   "gradient_accumulation_steps",
                                                   "zero_optimization",
                                                   "optimizer",
                                                   "fp16",
                                                   "bf16"};
  if (std::ranges::none_of(own, [&](auto key) { return has_path(config.values, key); }))
    return refused_launch(path, fmt::format("not a configuration of DeepSpeed: it has none of {}",
                                            fmt::join(own, ", ")));
  if (auto rows = read_rows("deepspeed", config.values, text, path)) {
    file.arguments.notes = std::move(rows->notes);
    file.arguments.problems.insert(file.arguments.problems.end(), rows->problems.begin(),
                                   rows->problems.end());
  }
  DeepSpeedReader(config, path, file.arguments).run();
  return file;
}

}  // namespace sim::input
