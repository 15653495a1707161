#include "sim/input/launch/accelerate.h"

#include <fmt/format.h>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch_files.h"

namespace sim::input {
namespace {

std::string text_of(const LaunchValues& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::string() : found->second.text();
}

void read_fsdp(const LaunchValues& values, const std::string& path, MegatronArguments& out) {
  const auto of = [&](const std::string& key) { return text_of(values, key); };
  const auto set = [&](std::string setting) { out.settings.push_back({std::move(setting), path}); };
  const std::string strategy = of("fsdp_config.fsdp_sharding_strategy");
  const bool second = of("fsdp_config.fsdp_version") == "2";
  set(second ? "data_parallel=fsdp2" : "data_parallel=fsdp1");
  const bool keeps = strategy == "SHARD_GRAD_OP" || strategy == "2" ||
                     lower(of("fsdp_config.fsdp_reshard_after_forward")) == "false" ||
                     of("fsdp_config.fsdp_reshard_after_forward") == "SHARD_GRAD_OP";
  if (keeps) set("fsdp.reshard_after_forward=false");
  if (strategy.find("HYBRID") != std::string::npos) set("fsdp.hybrid=true");
  if (strategy == "NO_SHARD" || strategy == "3")
    out.problems.push_back({path,
                            "fsdp_sharding_strategy NO_SHARD is DDP; write "
                            "distributed_type: MULTI_GPU"});
  if (is_true_word(of("fsdp_config.fsdp_activation_checkpointing"))) set("recompute=full");
  if (is_true_word(of("fsdp_config.fsdp_offload_params")))
    out.problems.push_back({path,
                            "fsdp_offload_params: parameters on the CPU are not "
                            "simulated; remove it to see the run without it"});
  if (is_true_word(of("fsdp_config.fsdp_forward_prefetch"))) set("fsdp.forward_prefetch=1");
  // A missing key is None in FSDP1, which prefetches nothing [accelerate utils/dataclasses.py:
  // FullyShardedDataParallelPlugin.backward_prefetch].
  const std::string prefetch = of("fsdp_config.fsdp_backward_prefetch");
  if (prefetch == "NO_PREFETCH" || (prefetch.empty() && !second)) set("fsdp.backward_prefetch=0");
}

}  // namespace

LaunchFile read_accelerate(const LaunchValues& values, const std::string& text,
                           const std::string& path) {
  LaunchFile file;
  if (auto rows = read_rows("accelerate", values, text, path)) file.arguments = std::move(*rows);
  file.arguments.framework = "hf-trainer";
  MegatronArguments& out = file.arguments;
  const auto of = [&](const std::string& key) { return text_of(values, key); };
  const auto set = [&](std::string setting) { out.settings.push_back({std::move(setting), path}); };
  if (!of("num_processes").empty()) set("gpus=" + of("num_processes"));
  const std::string mixed = of("mixed_precision");
  // The Trainer's bf16 and fp16 replace it [transformers training_args.py:
  // ACCELERATE_MIXED_PRECISION].
  if (mixed == "fp16" || mixed == "bf16")
    set("precision=" + mixed);
  else
    out.missing.push_back({"precision",
                           {path, fmt::format("mixed_precision is {}: the Trainer's bf16 or fp16 "
                                              "decides; write precision=",
                                              mixed.empty() ? "not given" : mixed.substr(0, 40))}});
  const std::string kind = of("distributed_type");
  if (kind == "FSDP") {
    read_fsdp(values, path, out);
  } else if (kind == "DEEPSPEED") {
    const std::string stage = of("deepspeed_config.zero_stage");
    if (!stage.empty()) set("zero=" + stage);
    if (stage == "3" && (mixed == "bf16" || mixed == "fp16")) set("deepspeed_optimizer=true");
    if (!is_off_word(of("deepspeed_config.offload_optimizer_device"))) {
      set("optimizer_cpu_offload=true");
      if (stage != "3") set("precision_aware_optimizer=true");
    }
  } else if (kind == "MULTI_GPU" || is_off_word(kind)) {
    set("data_parallel=ddp");
    set("distributed_optimizer=false");
  }
  if (is_off_word(kind)) {  // one GPU
    if (of("num_processes").empty()) set("gpus=1");
  } else if (kind != "FSDP" && kind != "DEEPSPEED" && kind != "MULTI_GPU") {
    out.problems.push_back({path, fmt::format("distributed_type {} is not read; write FSDP, "
                                              "DEEPSPEED or MULTI_GPU",
                                              kind.substr(0, 40))});
  }
  return file;
}

}  // namespace sim::input
