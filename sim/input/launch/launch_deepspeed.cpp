// launch_deepspeed.cpp — reads DeepSpeed's JSON configuration as the launch file. The command line
// gives the model and the sequence.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/input/launch/deepspeed_config.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

class DeepSpeedReader {
 public:
  // `by_trainer`: the Trainer's arguments are "auto" values, and it says batch and precision.
  DeepSpeedReader(const DeepSpeedConfig& config, const std::string& path, bool by_trainer,
                  MegatronArguments& out)
      : config_(config), path_(path), by_trainer_(by_trainer), out_(out) {}

  void run() {
    if (!by_trainer_) batch();
    if (!by_trainer_) precision();
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
    const bool is_short = config_.fp16 || config_.bf16 || config_.auto_precision || by_trainer_;
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
  bool by_trainer_;
  MegatronArguments& out_;
};

// The notes and problems of the keys, by the launcher file of DeepSpeed.
void read_keys(const DeepSpeedConfig& config, const std::string& text, const std::string& path,
               MegatronArguments& out) {
  out.problems = config.problems;
  const auto rows = read_rows("deepspeed", config.values, text, path);
  if (!rows) return;
  out.notes = rows->notes;
  out.problems.insert(out.problems.end(), rows->problems.begin(), rows->problems.end());
}

// The first word in capitals in place of a value: `"stage": ZERO_STAGE`; "" if there is none.
std::string word_to_fill(const std::string& text) {
  for (std::size_t at = text.find(": "); at != std::string::npos; at = text.find(": ", at + 1)) {
    const std::size_t first = at + 2;
    std::size_t end = first;
    while (end < text.size() && ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_')) ++end;
    if (end - first > 3 && text.substr(first, end - first).find('_') != std::string::npos)
      return text.substr(first, end - first);
  }
  return "";
}

// The file of a program that writes its keys in braces: JSON, or YAML with '#' before comments and
// commas at the end of lists [EleutherAI/gpt-neox configs].
std::optional<LaunchFile> of_another_program(const DeepSpeedConfig& config, const std::string& text,
                                             const std::string& path) {
  if (config.problems.empty()) return read_by_launcher(config.values, text, path);
  if (!config.is_no_json) return std::nullopt;
  try {
    if (yaml_values(text).empty()) return std::nullopt;
  } catch (const YAML::Exception&) {
    return std::nullopt;  // the problem of the JSON text stays
  }
  if (path.ends_with(".json") && word_to_fill(text).empty()) return std::nullopt;
  if (const std::string word = word_to_fill(text); !word.empty())
    return refused_launch(
        path, fmt::format("a template: {} stands for a value; write the value in its place", word));
  return read_launch_yaml(text, path);
}

}  // namespace

LaunchFile read_deepspeed(const std::string& text, const std::string& path) {
  const DeepSpeedConfig config = read_deepspeed_config(text, path);
  if (auto other = of_another_program(config, text, path)) return std::move(*other);
  LaunchFile file;
  file.arguments.framework = "deepspeed";
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
  read_keys(config, text, path, file.arguments);
  DeepSpeedReader(config, path, false, file.arguments).run();
  return file;
}

MegatronArguments read_deepspeed_of_trainer(const std::string& text, const std::string& path) {
  const DeepSpeedConfig config = read_deepspeed_config(text, path);
  MegatronArguments out;
  read_keys(config, text, path, out);
  DeepSpeedReader(config, path, true, out).run();
  return out;
}

std::optional<NamedFile> above(const std::string& launch_file, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path named(name);
  if (name.empty() || named.is_absolute()) return std::nullopt;
  constexpr int highest = 5;
  std::error_code error;
  fs::path folder = fs::absolute(launch_file, error).parent_path();
  if (error) return std::nullopt;
  for (int up = 0; up <= highest; ++up) {
    const std::string path = (folder / named).lexically_normal().string();
    if (std::error_code missing; fs::is_regular_file(path, missing))
      if (const Result<std::string> text = read_file(path, max_launch_bytes))
        return NamedFile{path, *text};
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return std::nullopt;
}

}  // namespace sim::input
