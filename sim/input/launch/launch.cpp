#include "sim/input/launch/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace sim::input {
namespace {

// True if brackets outside strings are nested too deep for a launch file.
bool too_deep(const std::string& json) {
  int depth = 0;
  bool text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (text && c == '\\') {
      ++i;
    } else if (c == '"') {
      text = !text;
    } else if (!text && (c == '{' || c == '[')) {
      if (++depth > max_launch_depth) return true;
    } else if (!text && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

}  // namespace

LaunchFile refused_launch(std::string where, std::string message) {
  LaunchFile file;
  file.arguments.problems.push_back({std::move(where), std::move(message)});
  return file;
}

bool named_as_launch(std::string_view path) {
  constexpr std::array<std::string_view, 4> suffixes{".sh", ".yaml", ".yml", ".toml"};
  return std::ranges::any_of(suffixes, [&](auto suffix) { return path.ends_with(suffix); });
}

LaunchFile read_launch(const std::string& text, const std::string& path) {
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return read_launch_yaml(text, path);
  if (path.ends_with(".toml")) return read_torchtitan(text, path);
  if (path.ends_with(".json")) return read_deepspeed(text, path);
  return {read_megatron(text, path)};
}

bool asks_for_fp32_gradients(const nlohmann::json& deepspeed) {
  if (!deepspeed.is_object()) return false;
  const auto is_fp32 = [](const nlohmann::json& in, const char* key) {
    const auto found = in.find(key);
    if (found == in.end() || !found->is_string()) return false;
    const auto& name = found->get_ref<const std::string&>();
    return name == "fp32" || name == "float32" || name == "torch.float32" || name == "float";
  };
  const auto types = deepspeed.find("data_types");
  return is_fp32(deepspeed, "communication_data_type") ||
         (types != deepspeed.end() && types->is_object() && is_fp32(*types, "grad_accum_dtype"));
}

// Reads the keys of a DeepSpeed configuration that affect a step. The command line gives the model
// and the sequence. Source: microsoft/DeepSpeed, docs/_pages/config-json.md.
LaunchFile read_deepspeed(const std::string& text, const std::string& path) {
  using nlohmann::json;
  if (text.size() > max_launch_bytes || too_deep(text))
    return refused_launch(path, "too large or nested too deep for a configuration of DeepSpeed");
  const json root = json::parse(text, nullptr, false, true);
  if (!root.is_object())
    return refused_launch(path, "not a JSON object: is it DeepSpeed's configuration?");
  constexpr std::array own{"train_batch_size",
                           "train_micro_batch_size_per_gpu",
                           "gradient_accumulation_steps",
                           "zero_optimization",
                           "optimizer",
                           "fp16",
                           "bf16"};
  if (std::ranges::none_of(own, [&](const char* key) { return root.contains(key); }))
    return refused_launch(path, fmt::format("not a configuration of DeepSpeed: it has none of {}",
                                            fmt::join(own, ", ")));
  LaunchFile file;
  file.arguments.framework = "";
  MegatronArguments& out = file.arguments;
  const auto set = [&](std::string setting) { out.settings.push_back({std::move(setting), path}); };
  const auto whole = [&](const json& in, const char* key) -> std::int64_t {
    const auto found = in.find(key);
    return found != in.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  const auto enabled = [&](const char* key) {
    const auto found = root.find(key);
    return found != root.end() && found->is_object() && found->contains("enabled") &&
           (*found)["enabled"] == true;
  };
  if (const auto n = whole(root, "train_micro_batch_size_per_gpu"); n > 0)
    set(fmt::format("micro_batch={}", n));
  if (const auto n = whole(root, "train_batch_size"); n > 0) set(fmt::format("global_batch={}", n));
  set(enabled("fp16") ? "precision=fp16" : enabled("bf16") ? "precision=bf16" : "precision=fp32");
  if (root.contains("gradient_clipping") && root["gradient_clipping"] == 0.0)
    set("gradient_clipping=false");
  const auto zero = root.find("zero_optimization");
  const bool has_zero = zero != root.end() && zero->is_object();
  set(fmt::format("zero={}", has_zero ? std::clamp<std::int64_t>(whole(*zero, "stage"), 0, 3) : 0));
  const bool shards = has_zero && whole(*zero, "stage") == 3;
  if (has_zero && (zero->contains("offload_optimizer") || zero->contains("cpu_offload"))) {
    set("optimizer_cpu_offload=true");
    const auto part = zero->find("offload_optimizer");
    if (part != zero->end() && part->is_object() && part->contains("ratio") &&
        (*part)["ratio"].is_number())
      set(fmt::format("optimizer_offload_fraction={}", (*part)["ratio"].get<double>()));
    if (!shards) set("precision_aware_optimizer=true");
  }
  // Gradients are accumulated and communicated in the type of the model [runtime/engine.py:
  // get_data_types, communication_data_type].
  const bool short_types = enabled("fp16") || enabled("bf16");
  if (has_zero && whole(*zero, "stage") >= 2 && short_types)
    set(fmt::format("fp32_gradients={}", asks_for_fp32_gradients(root)));
  if (shards) {
    const auto off = [&](const char* key) { return zero->contains(key) && (*zero)[key] == false; };
    if (short_types) {
      set("deepspeed_optimizer=true");
      if (off("overlap_comm")) set("overlap_grad_reduce=false");
      if (off("reduce_scatter")) set("deepspeed_all_reduce=true");
      if (const auto n = whole(*zero, "sub_group_size"); n > 0)
        set(fmt::format("optimizer_sub_group={}", n));
    }
    if (const auto n = whole(*zero, "zero_hpz_partition_size"); n > 1)
      set(fmt::format("fsdp.secondary={}", n));
    for (const char* key : {"quantized_weights", "quantized_gradients"})
      if (const auto found = zero->find(std::string("zero_") + key);
          found != zero->end() && *found == true)
        set(fmt::format("fsdp.{}=true", key));
  }
  std::string left;
  for (const char* key : {"curriculum_learning", "data_efficiency", "activation_checkpointing",
                          "aio", "compression_training"})
    if (root.contains(key)) left += (left.empty() ? "" : ", ") + std::string(key);
  if (has_zero && zero->contains("offload_param"))
    left += (left.empty() ? "" : ", ") + std::string("offload_param");
  if (!left.empty()) out.notes.push_back(fmt::format("not simulated: {}", left));
  return file;
}

}  // namespace sim::input
