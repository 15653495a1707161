// launch_yaml.cpp — reads YAML configurations: Megatron-LM (MODEL_ARGS), NeMo, Megatron-Bridge,
// accelerate.
//
// Keys become Megatron-LM flags of the same meaning. The Translator then reads them.
//
// Sources: NVIDIA/Megatron-LM tests/functional_tests/test_cases; NVIDIA/NeMo
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml; NVIDIA-NeMo/Megatron-Bridge
// docs/megatron-lm-to-megatron-bridge.md; huggingface/accelerate docs, usage_guides/fsdp.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/megatron_flags.h"
#include "sim/input/launch/megatron_translator.h"

namespace sim::input {
namespace {

// A scalar or a list of scalars, with the path of its keys: "model.optim.name".
struct YamlValue {
  std::vector<std::string> words;
  std::size_t at = 0;

  const std::string& text() const {
    static const std::string none;
    return words.empty() ? none : words.front();
  }
};
using Values = std::map<std::string, YamlValue, std::less<>>;

std::string scalar(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar() : std::string();
}

void gather(const YAML::Node& node, const std::string& prefix, int depth, Values& values) {
  if (depth > max_launch_depth || values.size() >= max_launch_values) return;
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const std::string key = scalar(entry.first);
      if (key.empty()) continue;
      gather(entry.second, prefix.empty() ? key : prefix + "." + key, depth + 1, values);
      if (values.size() >= max_launch_values) return;
    }
    return;
  }
  YamlValue value;
  value.at = node.Mark().pos > 0 ? static_cast<std::size_t>(node.Mark().pos) : 0;
  if (node.IsScalar()) value.words.push_back(node.Scalar());
  if (node.IsSequence())
    for (const auto& element : node)
      if (element.IsScalar() && value.words.size() < max_launch_values)
        value.words.push_back(element.Scalar());
  values[prefix] = std::move(value);
}

bool is_true(const std::string& text) {
  const std::string word = lower(text);
  return word == "true" || word == "yes" || word == "on";
}
bool says_off(const std::string& text) {
  const std::string word = lower(text);
  return word.empty() || word == "false" || word == "no" || word == "off" || word == "null" ||
         word == "none" || word == "~";
}

shell::Word word_of(const std::string& text, std::size_t at) {
  shell::Word word{text, at, {}};
  // ${NAME}: another program substitutes it.
  if (const std::size_t dollar = text.find("${"); dollar != std::string::npos)
    word.unknowns.push_back(text.substr(dollar, text.find('}', dollar) - dollar + 1));
  return word;
}

// Adds a flag as if the command line had `--name value`.
void give(Launch& launch, const std::string& name, const YamlValue& value) {
  Given given;
  given.flag = {"--" + name, value.at, {}};
  for (const std::string& text : value.words) {
    std::istringstream parts(text);
    for (std::string part; parts >> part;) given.values.push_back(word_of(part, value.at));
  }
  launch.flags[name] = std::move(given);
}

// --- Megatron-LM: MODEL_ARGS ---------------------------------------------------------------

Launch of_arguments(const Values& values) {
  Launch launch;
  launch.program = "pretrain_gpt.py";
  launch.started = 1;
  for (const auto& [path, value] : values) {
    if (path.starts_with("ENV_VARS.")) {
      const std::string name = path.substr(9);
      launch.environment[name] = {name + "=" + value.text(), value.at, {}};
    }
    if (path == "MODE" && (value.text() == "inference" || value.text() == "rl"))
      launch.program = value.text() == "rl" ? "train_rl.py" : "inference.py";
    const std::size_t dashes = path.find(".--");
    if (!path.starts_with("MODEL_ARGS.") || dashes == std::string::npos) continue;
    std::string name = path.substr(dashes + 3);
    std::replace(name.begin(), name.end(), '_', '-');
    if (lower(value.text()) == "false") continue;
    give(launch, name, is_true(value.text()) ? YamlValue{{}, value.at} : value);
  }
  // The file's folder names its program, and so do a few flags.
  if (launch.flags.contains("decoder-seq-length") || launch.flags.contains("decoder-num-layers"))
    launch.program = "pretrain_t5.py";
  if (launch.flags.contains("language-model-type") || launch.flags.contains("img-h"))
    launch.program = "pretrain_vlm.py";
  return launch;
}

// The folder names the program: .../test_cases/bert/NAME/model_config.yaml.
void program_of_folder(const std::string& path, Launch& launch) {
  std::string_view rest = path;
  for (int up = 0; up < 3; ++up) {
    const std::size_t slash = rest.find_last_of('/');
    const std::string name(rest.substr(slash == std::string_view::npos ? 0 : slash + 1));
    for (const char* other : {"bert", "t5", "multimodal", "llava", "hybrid", "mamba", "mimo"})
      if (name == other || name.starts_with(other + std::string("-")) ||
          name.starts_with(other + std::string("_")))
        launch.program = "pretrain_" + std::string(other) + ".py";
    if (slash == std::string_view::npos) return;
    rest = rest.substr(0, slash);
  }
}

// --- NeMo and Megatron-Bridge --------------------------------------------------------------

struct Renamed {
  std::string_view key, flag;  // the last part of the path; a flag that takes its value
};
constexpr std::array renamed{
    Renamed{"encoder_seq_length", "seq-length"},
    Renamed{"sequence_length", "seq-length"},
    Renamed{"seq_length", "seq-length"},
    Renamed{"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
    Renamed{"num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"},
    Renamed{"num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"},
    Renamed{"activations_checkpoint_granularity", "recompute-granularity"},
    Renamed{"activations_checkpoint_method", "recompute-method"},
    Renamed{"activations_checkpoint_num_layers", "recompute-num-layers"},
    Renamed{"num_moe_experts", "num-experts"},
    Renamed{"layernorm_epsilon", "norm-epsilon"},
};
// Switches: the flag is given if the value is `when`.
struct Switch {
  std::string_view key;
  bool when;
  std::string_view flag;
};
constexpr std::array switches{
    Switch{"ub_tp_comm_overlap", true, "tp-comm-overlap"},
    Switch{"share_embeddings_and_output_weights", false, "untie-embeddings-and-output-weights"},
    Switch{"bias", false, "disable-bias-linear"},
    Switch{"add_bias_linear", false, "disable-bias-linear"},
    Switch{"qkv_bias", true, "add-qkv-bias"},
    Switch{"overlap_grad_sync", true, "overlap-grad-reduce"},
    Switch{"overlap_param_sync", true, "overlap-param-gather"},
    Switch{"gradient_accumulation_fusion", false, "no-gradient-accumulation-fusion"},
    Switch{"apply_rope_fusion", false, "no-rope-fusion"},
    Switch{"bias_activation_fusion", false, "no-bias-gelu-fusion"},
    Switch{"bias_dropout_add_fusion", false, "no-bias-dropout-fusion"},
    Switch{"masked_softmax_fusion", false, "no-masked-softmax-fusion"},
    Switch{"cross_entropy_loss_fusion", true, "cross-entropy-loss-fusion"},
    Switch{"persist_layer_norm", false, "no-persist-layer-norm"},
    Switch{"grad_reduce_in_fp32", true, "accumulate-allreduce-grads-in-fp32"},
    Switch{"fp8", true, "fp8-hybrid"},
};
constexpr std::array<std::string_view, 11> sections = {
    "trainer.strategy.", "model.",        "train.", "optimizer.",     "ddp.", "dataset.", "data.",
    "tokenizer.",        "comm_overlap.", "dist.",  "mixed_precision"};

std::string last_part(const std::string& path) {
  return path.substr(path.find_last_of('.') + 1);
}

void activation(const Values& values, Launch& launch) {
  const auto of = [&](const char* key) -> const YamlValue* {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  };
  if (const YamlValue* name = of("model.activation")) {
    if (name->text().find("swiglu") != std::string::npos)
      give(launch, "swiglu", {{}, name->at});
    else if (name->text() == "squared-relu")
      give(launch, "squared-relu", {{}, name->at});
    else if (name->text() != "gelu")
      give(launch, "glu-activation", *name);
  }
  if (const YamlValue* gated = of("model.gated_linear_unit"); gated && is_true(gated->text()))
    give(launch, "swiglu", {{}, gated->at});
}

void precision(const std::string& path, const YamlValue& value, Launch& launch) {
  const std::string name = lower(value.text());
  if (name.find("bf16") != std::string::npos) give(launch, "bf16", {{}, value.at});
  if (name == "16" || name == "16-mixed" || name.find("fp16") != std::string::npos)
    give(launch, "fp16", {{}, value.at});
  if (path == "mixed_precision" && name.find("fp8") != std::string::npos)
    give(launch, "fp8-hybrid", {{}, value.at});
  if (path == "mixed_precision" && name.find("current_scaling") != std::string::npos)
    give(launch, "fp8-recipe", {{"tensorwise"}, value.at});
}

// Translates one key. False: the key is unknown.
bool nemo_key(const std::string& path, const YamlValue& value, Launch& launch) {
  const std::string key = last_part(path);
  for (const Renamed& one : renamed) {
    if (one.key != key) continue;
    if (!says_off(value.text())) give(launch, std::string(one.flag), value);
    return true;
  }
  for (const Switch& one : switches) {
    if (one.key != key) continue;
    const bool on = !says_off(value.text());
    if (on == one.when) give(launch, std::string(one.flag), {{}, value.at});
    return true;
  }
  std::string flag = key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  const FlagMeaning meaning = flag_meaning(flag);
  if (meaning.effect == FlagEffect::unknown) return false;
  if (says_off(value.text()) || value.words.empty()) return true;
  give(launch, flag, is_true(value.text()) ? YamlValue{{}, value.at} : value);
  if (key == "num_query_groups") give(launch, "group-query-attention", {{}, value.at});
  return true;
}

Launch of_nemo(const Values& values, std::vector<std::string>& left) {
  Launch launch;
  launch.started = 1;
  launch.program = "pretrain_gpt.py";
  for (const auto& [path, value] : values) {
    if (path == "trainer.num_nodes" || path == "trainer.devices") {
      Given given{{word_of(value.text(), value.at)}, {"--" + path, value.at, {}}};
      launch.launcher[path == "trainer.devices" ? "nproc-per-node" : "nnodes"] = given;
    } else if (path == "trainer.precision" || path.starts_with("mixed_precision")) {
      precision(path, value, launch);
    } else if (path == "model.optim.name") {
      if (value.text() == "distributed_fused_adam")
        give(launch, "use-distributed-optimizer", {{}, value.at});
    } else if (path.starts_with("model.tokenizer.") || path.starts_with("tokenizer.")) {
      const std::string key = last_part(path);
      if (key == "type" || key == "tokenizer_type") give(launch, "tokenizer-type", value);
      if (key == "model" || key == "tokenizer_model") give(launch, "tokenizer-model", value);
      if (key == "vocab_size") give(launch, "vocab-size", value);
    } else if (last_part(path) == "activation" || last_part(path) == "gated_linear_unit" ||
               last_part(path) == "activation_func") {
      continue;
    } else if (std::any_of(sections.begin(), sections.end(),
                           [&p = path](std::string_view s) { return p.starts_with(s); })) {
      if (!nemo_key(path, value, launch) && !says_off(value.text())) left.push_back(path);
    }
  }
  activation(values, launch);
  if (const auto amp = values.find("model.megatron_amp_O2");
      amp != values.end() && is_true(amp->second.text()) && launch.flags.contains("bf16"))
    give(launch, "accumulate-allreduce-grads-in-fp32", {{}, amp->second.at});
  return launch;
}

// --- Hugging Face accelerate ---------------------------------------------------------------

LaunchFile of_accelerate(const Values& values, const std::string& path) {
  LaunchFile file;
  file.arguments.framework = "";
  MegatronArguments& out = file.arguments;
  const auto of = [&](const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second.text();
  };
  const auto set = [&](std::string setting) { out.settings.push_back({std::move(setting), path}); };
  if (!of("num_processes").empty()) set("gpus=" + of("num_processes"));
  const std::string mixed = of("mixed_precision");
  set(mixed == "fp16" ? "precision=fp16" : mixed == "bf16" ? "precision=bf16" : "precision=fp32");
  const std::string kind = of("distributed_type");
  if (kind == "FSDP") {
    const std::string strategy = of("fsdp_config.fsdp_sharding_strategy");
    const bool second = of("fsdp_config.fsdp_version") == "2";
    set(second ? "data_parallel=fsdp2" : "data_parallel=fsdp1");
    const bool keeps = strategy == "SHARD_GRAD_OP" || strategy == "2" ||
                       lower(of("fsdp_config.fsdp_reshard_after_forward")) == "false" ||
                       of("fsdp_config.fsdp_reshard_after_forward") == "SHARD_GRAD_OP";
    if (keeps) set("fsdp.reshard_after_forward=false");
    if (strategy.find("HYBRID") != std::string::npos)
      out.notes.push_back(
          fmt::format("{}: say how many copies there are: fsdp.replicas=, for "
                      "example the nodes",
                      strategy));
    if (strategy == "NO_SHARD" || strategy == "3")
      out.problems.push_back({path,
                              "fsdp_sharding_strategy NO_SHARD is DDP; write "
                              "distributed_type: MULTI_GPU"});
    if (is_true(of("fsdp_config.fsdp_activation_checkpointing"))) set("recompute=full");
    if (is_true(of("fsdp_config.fsdp_offload_params")))
      out.problems.push_back({path,
                              "fsdp_offload_params: parameters on the CPU are not "
                              "simulated; remove it to see the run without it"});
    if (is_true(of("fsdp_config.fsdp_forward_prefetch"))) set("fsdp.forward_prefetch=1");
    if (of("fsdp_config.fsdp_backward_prefetch") == "NO_PREFETCH") set("fsdp.backward_prefetch=0");
  } else if (kind == "DEEPSPEED") {
    const std::string stage = of("deepspeed_config.zero_stage");
    if (!stage.empty()) set("zero=" + stage);
    if (stage == "3") set("deepspeed_optimizer=true");
    if (!says_off(of("deepspeed_config.offload_optimizer_device"))) {
      set("optimizer_cpu_offload=true");
      if (stage != "3") set("precision_aware_optimizer=true");
    }
  } else if (kind == "MULTI_GPU") {
    set("distributed_optimizer=false");
  } else {
    out.problems.push_back({path, fmt::format("distributed_type {} is not read; write FSDP, "
                                              "DEEPSPEED or MULTI_GPU",
                                              kind.substr(0, 40))});
  }
  out.notes.push_back("layers run fused kernels; layer_kernels=eager simulates PyTorch's own");
  return file;
}

}  // namespace

LaunchFile read_launch_yaml(const std::string& text, const std::string& path) {
  LaunchFile file;
  if (text.size() > max_launch_bytes) {
    file.arguments.problems.push_back({path, "too large for a configuration"});
    return file;
  }
  Values values;
  try {
    gather(YAML::Load(text), "", 0, values);
  } catch (const YAML::Exception& error) {
    file.arguments.problems.push_back(
        {fmt::format("{}:{}:{}", path, error.mark.line + 1, error.mark.column + 1),
         fmt::format("not YAML: {}", error.msg)});
    return file;
  }
  const auto has = [&](std::string_view prefix) {
    const auto found = values.lower_bound(prefix);
    return found != values.end() && found->first.starts_with(prefix);
  };
  if (has("distributed_type")) return of_accelerate(values, path);
  const shell::Script script;
  std::vector<std::string> left;
  Launch launch;
  if (has("MODEL_ARGS.trainer.") || has("MODEL_ARGS.model.")) {
    // A NeMo command line in a file of the same format.
    Values inner;
    for (const auto& [key, value] : values)
      if (key.starts_with("MODEL_ARGS.")) inner[key.substr(11)] = value;
    launch = of_nemo(inner, left);
    program_of_folder(path, launch);
  } else if (has("MODEL_ARGS.")) {
    launch = of_arguments(values);
    program_of_folder(path, launch);
  } else if (has("model.")) {
    launch = of_nemo(values, left);
  } else {
    file.arguments.problems.push_back(
        {path,
         "not a configuration that is read: Megatron-LM's MODEL_ARGS, NeMo's and "
         "Megatron-Bridge's `model`, or accelerate's `distributed_type`"});
    return file;
  }
  file.arguments = Translator(launch, script, text, path).run();
  if (!left.empty()) {
    constexpr std::size_t most = 24;
    const std::size_t shown = std::min(left.size(), most);
    file.arguments.notes.push_back(fmt::format(
        "not read: {}{}",
        fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        left.size() > most ? fmt::format(" and {} more", left.size() - most) : ""));
  }
  return file;
}

}  // namespace sim::input
