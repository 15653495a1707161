#include "sim/config/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/property_tree/ini_parser.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/config/locate.h"
#include "sim/core/letters.h"

namespace sim::config {
namespace {

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return text.ends_with(end); });
}

LaunchFile refused(std::string where, std::string message) {
  LaunchFile file;
  file.arguments.problems.push_back({std::move(where), std::move(message)});
  return file;
}

// Nested deeper than a launch file is: brackets outside of strings, counted.
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

LaunchFile read_launch(const std::string& text, const std::string& path) {
  if (ends_with_any(path, {".yaml", ".yml"})) return read_launch_yaml(text, path);
  if (path.ends_with(".toml")) return read_torchtitan(text, path);
  if (path.ends_with(".json")) return read_deepspeed(text, path);
  return {read_megatron(text, path)};
}

// The keys of DeepSpeed's configuration that say how a step runs; the model and the sequence come
// from the command line. microsoft/DeepSpeed, docs/_pages/config-json.md.
LaunchFile read_deepspeed(const std::string& text, const std::string& path) {
  using nlohmann::json;
  if (text.size() > max_launch_bytes || too_deep(text))
    return refused(path, "too large or nested too deep for a configuration of DeepSpeed");
  const json root = json::parse(text, nullptr, false, true);
  if (!root.is_object())
    return refused(path, "not a JSON object: is it DeepSpeed's configuration?");
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
  if (has_zero && (zero->contains("offload_optimizer") || zero->contains("cpu_offload"))) {
    set("optimizer_cpu_offload=true");
    set("precision_aware_optimizer=true");
  }
  if (has_zero && whole(*zero, "stage") == 3) {
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

namespace {

// torchtitan's keys; `setting` ends in '=' where it takes the value.
struct TitanKey {
  std::string_view key, setting;
};
constexpr std::array titan_keys{
    TitanKey{"parallelism.tensor_parallel_degree", "tp="},
    TitanKey{"training.tensor_parallel_degree", "tp="},
    TitanKey{"parallelism.pipeline_parallel_degree", "pp="},
    TitanKey{"experimental.pipeline_parallel_degree", "pp="},
    TitanKey{"parallelism.context_parallel_degree", "cp="},
    TitanKey{"experimental.context_parallel_degree", "cp="},
    TitanKey{"parallelism.data_parallel_replicate_degree", "fsdp.replicas="},
    TitanKey{"training.data_parallel_replicate_degree", "fsdp.replicas="},
    TitanKey{"training.local_batch_size", "micro_batch="},
    TitanKey{"training.batch_size", "micro_batch="},
    TitanKey{"training.global_batch_size", "global_batch="},
    TitanKey{"training.seq_len", "sequence="},
};
// Those that change the cost and are not read.
constexpr std::array<std::string_view, 4> titan_left = {
    "parallelism.expert_parallel_degree", "training.enable_cpu_offload",
    "parallelism.pipeline_parallel_layers_per_stage", "parallelism.module_fqns_per_model_part"};

// A value of TOML: without its comment and its quotes.
std::string plain_value(std::string value) {
  if (!value.empty() && (value[0] == '"' || value[0] == '\'')) {
    const std::size_t close = value.find(value[0], 1);
    return value.substr(1, close == std::string::npos ? close : close - 1);
  }
  value.erase(std::min(value.find('#'), value.size()));
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.pop_back();
  return value;
}

// "llama3" and "8B": a file of models/.
std::string titan_model(const std::string& name, const std::string& flavor) {
  const std::string size = lower(flavor);
  if (name == "llama3")
    return size == "405b"  ? "llama-3.1-405b"
           : size == "70b" ? "llama-3.1-70b"
                           : "llama-3.1-" + size;
  if (name == "llama2") return "llama-2-" + size;
  return name + "-" + size;
}

using Values = std::map<std::string, std::string, std::less<>>;

void titan_recompute(const Values& values, const std::string& path, MegatronArguments& out) {
  const auto mode = values.find("activation_checkpoint.mode");
  if (mode == values.end() || mode->second == "none") return;
  out.settings.push_back({"recompute=" + mode->second, path});
  const auto option = values.find("activation_checkpoint.selective_ac_option");
  if (mode->second == "selective" && (option == values.end() || option->second == "op"))
    out.settings.push_back({"recompute_modules=operators", path});
  else if (mode->second == "selective")
    out.notes.push_back(
        "activation_checkpoint.selective_ac_option: every second layer is not "
        "simulated; selective recomputes attention");
}

}  // namespace

// The sections and keys of torchtitan's configuration before 2026 (torchtitan/config_manager.py).
// Its files are a subset of TOML that the INI reader of Boost.PropertyTree reads; the TOML
// libraries of Debian 12 do not survive damaged input (marzer/tomlplusplus#294).
LaunchFile read_torchtitan(const std::string& text, const std::string& path) {
  if (text.size() > max_launch_bytes) return refused(path, "too large for a configuration");
  boost::property_tree::ptree tree;
  try {
    std::istringstream in(text);
    boost::property_tree::ini_parser::read_ini(in, tree);
  } catch (const boost::property_tree::ini_parser_error& error) {
    return refused(fmt::format("{}:{}", path, error.line()),
                   fmt::format("not a configuration of torchtitan: {}", error.message()));
  }
  Values values;
  for (const auto& [section, keys] : tree)
    for (const auto& [key, value] : keys)
      if (values.size() < max_launch_values)
        values[section + "." + key] = plain_value(value.data());
  LaunchFile file;
  file.arguments.framework = "torchtitan";
  MegatronArguments& out = file.arguments;
  const auto set = [&](std::string setting) { out.settings.push_back({std::move(setting), path}); };
  for (const auto& [key, setting] : titan_keys)
    if (const auto found = values.find(key); found != values.end() && found->second != "-1")
      set(std::string(setting) + found->second);
  const auto of = [&](std::string_view key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  };
  set("data_parallel=fsdp2");
  if (!of("model.name").empty() && !of("model.flavor").empty())
    set("model=" + titan_model(of("model.name"), of("model.flavor")));
  if (const std::string schedule = of("parallelism.pipeline_parallel_schedule");
      !schedule.empty() && of("parallelism.pipeline_parallel_degree") > "1")
    set("schedule=" + (schedule == "Interleaved1F1B" ? "interleaved-1f1b" : lower(schedule)));
  // [torch/distributed/tensor/experimental/_attention.py: gathered at once, or in turns]
  for (const char* section : {"parallelism", "experimental"})
    if (const std::string rotate = of(std::string(section) + ".context_parallel_rotate_method");
        !rotate.empty())
      set(rotate == "alltoall" ? "context=ring" : "context=all-gather");
  const bool compiled = of("compile.enable") == "true" || of("training.compile") == "true";
  if (compiled) set("layer_kernels=compiled");
  // A compiler leaves out what nobody reads, whatever this says.
  if (const std::string early = of("activation_checkpoint.early_stop"); !compiled && !early.empty())
    set("checkpoint_early_stop=" + early);
  for (const char* section : {"parallelism", "experimental"}) {
    const std::string key = std::string(section) + ".enable_async_tensor_parallel";
    if (of(key) != "true") continue;
    // The compiler is what cuts products beside their gathers and scatters
    // [torchtitan/distributed/tensor_parallel.py:maybe_enable_async_tp].
    if (!compiled)
      return refused(path, key + " needs torch.compile: set enable = true in [compile]");
    set("tp_comm_overlap=true");
  }
  if (of("float8.enable_float8_linear") == "true" ||
      of("float8.enable_fsdp_float8_all_gather") == "true")
    set("fp8=true");
  titan_recompute(values, path, out);
  for (const std::string_view key : titan_left)
    if (const std::string value = of(key); !value.empty() && value != "false" && value != "1")
      out.notes.push_back(fmt::format("{} is not simulated", key));
  return file;
}

}  // namespace sim::config
