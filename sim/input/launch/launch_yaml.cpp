// launch_yaml.cpp — reads YAML configurations: Megatron-LM (MODEL_ARGS), NeMo, Megatron-Bridge,
// FlagScale and Primus; the others by their launcher files.
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
#include <cmath>
#include <cstdlib>
#include <span>
#include <sstream>

#include "sim/base/ascii.h"
#include "sim/input/launch/accelerate.h"
#include "sim/input/launch/adapters.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/launch/launch_values.h"
#include "sim/input/launch/megatron_flags.h"
#include "sim/input/launch/megatron_keys.h"
#include "sim/input/launch/megatron_translator.h"
#include "sim/input/launch/mixed_precision.h"

namespace sim::input {
namespace {

// A word without the quotes of a shell around it, which YAML keeps inside its own, and without the
// brackets and commas of a list in a text: "[moe_act, mlp]".
std::string plain_word(std::string word, bool is_list) {
  const bool quoted = word.size() > 1 && word.front() == word.back() &&
                      (word.front() == '\'' || word.front() == '"');
  if (quoted) word = word.substr(1, word.size() - 2);
  if (is_list) std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == ','; });
  return word;
}

// Adds a flag as if the command line had `--name value`.
void give(Launch& launch, const std::string& name, const LaunchValue& value) {
  Given given;
  given.flag = {"--" + name, value.at, {}};
  for (const std::string& text : value.words) {
    std::istringstream parts(text);
    const bool is_list = text.starts_with('[') && text.ends_with(']') &&
                         text.find_first_of("abcdefghijklmnopqrstuvwxyz") == 1;
    for (std::string part; parts >> part;)
      given.values.push_back(word_of(plain_word(part, is_list), value.at));
    if (value.is_unknown && !given.values.empty()) given.values.back().unknowns.push_back(text);
  }
  launch.flags[name] = std::move(given);
}

// A variable of the environment. False: another key.
bool is_environment(const std::string& path, const LaunchValue& value, Launch& launch) {
  if (!path.starts_with("ENV_VARS.")) return false;
  const std::string name = path.substr(9);
  launch.environment[name] = {name + "=" + value.text(), value.at, {}};
  if (value.is_unknown) launch.environment[name].unknowns.push_back(value.text());
  return true;
}

// --- Megatron-LM: MODEL_ARGS ---------------------------------------------------------------

Launch of_arguments(const LaunchValues& values) {
  Launch launch;
  launch.program = "pretrain_gpt.py";
  launch.started = 1;
  for (const auto& [path, value] : values) {
    is_environment(path, value, launch);
    if (path == "MODE" && (value.text() == "inference" || value.text() == "rl"))
      launch.program = value.text() == "rl" ? "train_rl.py" : "inference.py";
    const std::size_t dashes = path.find(".--");
    if (!path.starts_with("MODEL_ARGS.") || dashes == std::string::npos) continue;
    std::string name = path.substr(dashes + 3);
    std::replace(name.begin(), name.end(), '_', '-');
    if (lower(value.text()) == "false") continue;
    give(launch, name, is_true_word(value.text()) ? LaunchValue{{}, value.at, false} : value);
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
    Switch{"grad_reduce_in_fp32", false, "grad-reduce-in-bf16"},
    Switch{"bias_activation_fusion", false, "no-bias-swiglu-fusion"},
    Switch{"bias_dropout_fusion", false, "no-bias-dropout-fusion"},
    Switch{"check_for_nan_in_grad", false, "no-check-for-nan-in-loss-and-grad"},
    Switch{"create_attention_mask", false, "no-create-attention-mask-in-dataloader"},
    Switch{"async_tensor_model_parallel_allreduce", false,
           "no-async-tensor-model-parallel-allreduce"},
    Switch{"fp8", true, "fp8-hybrid"},
};
// FlagScale keeps flags of Megatron-LM in `system`, `model` and `data`.
constexpr std::array<std::string_view, 13> sections = {
    "trainer.strategy.", "strategy.", "model.",     "train.",        "optimizer.", "ddp.",
    "dataset.",          "data.",     "tokenizer.", "comm_overlap.", "dist.",      "system.",
    "mixed_precision"};
// Sections without effect on a step, and sections that only name other files.
constexpr std::array<std::string_view, 22> other_sections = {"trainer.",
                                                             "exp_manager.",
                                                             "run.",
                                                             "name",
                                                             "defaults",
                                                             "hydra.",
                                                             "checkpoint.",
                                                             "logger.",
                                                             "scheduler.",
                                                             "rng.",
                                                             "profiling.",
                                                             "restore_from_path",
                                                             "log.",
                                                             "validation.",
                                                             "inference.",
                                                             "stages.",
                                                             "launcher_scripts_path",
                                                             "data_dir",
                                                             "base_results_dir",
                                                             "action",
                                                             "experiment.",
                                                             "peft.enabled"};

std::string last_part(const std::string& path) {
  return path.substr(path.find_last_of('.') + 1);
}

void activation(const LaunchValues& values, Launch& launch) {
  const auto of = [&](const char* key) -> const LaunchValue* {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  };
  if (const LaunchValue* name = of("model.activation")) {
    if (name->text().find("swiglu") != std::string::npos)
      give(launch, "swiglu", {{}, name->at, false});
    else if (name->text() == "squared-relu")
      give(launch, "squared-relu", {{}, name->at, false});
    else if (name->text() != "gelu")
      give(launch, "glu-activation", *name);
  }
  if (const LaunchValue* gated = of("model.gated_linear_unit");
      gated && is_true_word(gated->text()))
    give(launch, "swiglu", {{}, gated->at, false});
}

// The width of a gated MLP by FlagScale's keys [FlagOpen/FlagScale flagscale/runner/auto_tuner/
// utils.py: multiple_of, hidden_dim_multiplier].
void width(const LaunchValues& values, Launch& launch) {
  const auto number = [&](const char* key) {
    const auto found = values.find(key);
    return found == values.end() ? 0.0 : std::strtod(found->second.text().c_str(), nullptr);
  };
  const double unit = number("model.multiple_of"), hidden = number("model.hidden_size");
  if (launch.flags.contains("ffn-hidden-size") || !launch.flags.contains("swiglu")) return;
  if (!(unit >= 1 && unit < 1 << 20 && hidden >= 1 && hidden < 1 << 20)) return;
  double width = std::floor(4 * hidden * 2 / 3);
  if (const double factor = number("model.hidden_dim_multiplier"); factor > 0 && factor < 16)
    width = std::floor(width * factor);
  width = unit * std::ceil(width / unit);
  const LaunchValue& by = values.find("model.multiple_of")->second;
  give(launch, "ffn-hidden-size",
       {{std::to_string(static_cast<std::int64_t>(width))}, by.at, false});
}

void precision(const std::string& path, const LaunchValue& value, Launch& launch) {
  const std::string name = lower(value.text());
  if (name.find("bf16") != std::string::npos) give(launch, "bf16", {{}, value.at, false});
  if (name == "16" || name == "16-mixed" || name.find("fp16") != std::string::npos)
    give(launch, "fp16", {{}, value.at, false});
  if (path == "mixed_precision" && name.find("fp8") != std::string::npos)
    give(launch, "fp8-hybrid", {{}, value.at, false});
}

// Translates one key. False: the key is unknown.
bool nemo_key(const std::string& path, const LaunchValue& value, Launch& launch) {
  const std::string key = last_part(path);
  for (const Renamed& one : renamed) {
    if (one.key != key) continue;
    if (!is_off_word(value.text())) give(launch, std::string(one.flag), value);
    return true;
  }
  bool is_switch = false;
  for (const Switch& one : switches) {
    if (one.key != key) continue;
    is_switch = true;
    const bool on = !is_off_word(value.text());
    if (on == one.when) give(launch, std::string(one.flag), {{}, value.at, false});
  }
  if (is_switch) return true;
  std::string flag = key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  const FlagMeaning meaning = flag_meaning(flag);
  if (meaning.effect == FlagEffect::unknown) return false;
  if (is_off_word(value.text()) || value.words.empty()) return true;
  give(launch, flag, is_true_word(value.text()) ? LaunchValue{{}, value.at, false} : value);
  if (key == "num_query_groups") give(launch, "group-query-attention", {{}, value.at, false});
  return true;
}

bool in_any(std::span<const std::string_view> prefixes, const std::string& path) {
  return std::ranges::any_of(prefixes, [&](std::string_view s) { return path.starts_with(s); });
}

// The launcher's keys: NeMo's `trainer`, FlagScale's `experiment.runner`. False: another key.
bool started_by(const std::string& path, const LaunchValue& value, Launch& launch) {
  const bool per_node = path == "trainer.devices" || path == "experiment.runner.nproc_per_node";
  if (!per_node && path != "trainer.num_nodes" && path != "experiment.runner.nnodes") return false;
  const Given given{{word_of(value.text(), value.at)}, {"--" + path, value.at, {}}};
  launch.launcher[per_node ? "nproc-per-node" : "nnodes"] = given;
  return true;
}

Launch of_nemo(const LaunchValues& values, std::vector<std::string>& left) {
  Launch launch;
  launch.started = 1;
  launch.program = "pretrain_gpt.py";
  for (const auto& [path, value] : values) {
    if (started_by(path, value, launch) || is_environment(path, value, launch)) continue;
    if (path == "trainer.precision" || path == "plugins.precision" ||
        path == "trainer.plugins.precision" || path == "mixed_precision") {
      precision(path, value, launch);
    } else if (path == "model.optim.name") {
      if (value.text() == "distributed_fused_adam" || value.text() == "mcore_distributed_optim")
        give(launch, "use-distributed-optimizer", {{}, value.at, false});
    } else if (path.starts_with("model.tokenizer.") || path.starts_with("tokenizer.") ||
               path.starts_with("data.tokenizer.")) {
      const std::string key = last_part(path);
      if (key == "type" || key == "tokenizer_type") give(launch, "tokenizer-type", value);
      if (key == "model" || key == "tokenizer_model") give(launch, "tokenizer-model", value);
      if (key == "vocab_size") give(launch, "vocab-size", value);
    } else if (last_part(path) == "activation" || last_part(path) == "gated_linear_unit" ||
               last_part(path) == "activation_func") {
      continue;
    } else if (in_any(sections, path)) {
      if (!nemo_key(path, value, launch) && !is_off_word(value.text())) left.push_back(path);
    } else if (!in_any(other_sections, path) && !is_off_word(value.text())) {
      left.push_back(path);
    }
  }
  activation(values, launch);
  width(values, launch);
  // NeMo's switch for the formats below it.
  if (const auto fp8 = values.find("model.fp8");
      fp8 != values.end() && is_off_word(fp8->second.text()))
    for (const char* format : {"fp8-hybrid", "fp8-e4m3"}) launch.flags.erase(format);
  if (const auto offload = values.find("model.cpu_offloading");
      offload != values.end() && is_off_word(offload->second.text()))
    launch.flags.erase("cpu-offloading-num-layers");
  if (values.contains("system.hetero.enable_hetero") &&
      is_true_word(values.find("system.hetero.enable_hetero")->second.text()))
    launch.program = "train_heterogeneous.py";
  std::erase_if(left, [](const std::string& key) {
    return key == "model.multiple_of" || key == "model.hidden_dim_multiplier";
  });
  if (const auto amp = values.find("model.megatron_amp_O2");
      amp != values.end() && is_true_word(amp->second.text()) && launch.flags.contains("bf16"))
    give(launch, "accumulate-allreduce-grads-in-fp32", {{}, amp->second.at, false});
  return launch;
}

// The values below a key, with the rest of their paths, and all values elsewhere.
LaunchValues below(const LaunchValues& values, std::string_view prefix, std::string_view to = "") {
  LaunchValues inner;
  for (const auto& [key, value] : values)
    inner[key.starts_with(prefix) ? fmt::format("{}{}", to, key.substr(prefix.size())) : key] =
        value;
  return inner;
}

// NeMo, Megatron-Bridge and FlagScale name keys as Megatron-LM names its flags. One key is enough
// that no other program has, or two that some have.
bool is_of_megatron(const LaunchValues& values) {
  constexpr std::array<std::string_view, 7> own = {
      "tensor_model_parallel_size", "pipeline_model_parallel_size",
      "micro_batch_size",           "encoder_seq_length",
      "num_query_groups",           "use_distributed_optimizer",
      "recompute_granularity"};
  int found = 0;
  for (const auto& [path, value] : values) {
    const std::string key = last_part(path);
    if (path == key || !in_any(sections, path)) continue;
    if (std::ranges::count(own, key) > 0) found += 2;
    if (key == "num_layers" || key == "seq_length") ++found;
  }
  return found >= 2;
}

// Adapters of NeMo 1 (`model.peft`) and Megatron-Bridge (`peft`).
void nemo_adapters(const LaunchValues& values, const std::string& path, MegatronArguments& out) {
  const auto of = [&](const char* key) -> const LaunchValue* {
    const auto found = values.find(key);
    return found == values.end() || is_off_word(found->second.text()) ? nullptr : &found->second;
  };
  const LaunchValue* scheme = of("model.peft.peft_scheme");
  const LaunchValue* rank = of("peft.dim");
  const LaunchValue* modules = of("peft.target_modules");
  if (scheme && lower(scheme->text()) == "lora") {
    rank = of("model.peft.lora_tuning.adapter_dim");
    modules = of("model.peft.lora_tuning.target_modules");
  } else if (scheme || has_path(values, "model.adapter_tuning") ||
             has_path(values, "model.ia3_tuning") || has_path(values, "model.p_tuning")) {
    out.problems.push_back(
        {path, "only adapters of LoRA are simulated (model.peft.peft_scheme: lora)"});
    return;
  } else if (!rank && !modules) {
    return;
  }
  out.settings.push_back({"adapters=true", path});
  if (rank) out.settings.push_back({"lora_rank=" + rank->text(), path});
  if (!modules) return;
  const AdapterModules named = adapter_modules(modules->words);
  if (!named.modules.empty())
    out.settings.push_back({fmt::format("lora_modules={}", fmt::join(named.modules, ",")), path});
}

std::string unread_configuration(const LaunchValues& values) {
  std::vector<std::string> keys;
  for (const auto& [path, value] : values) {
    const std::string key = path.substr(0, path.find('.'));
    if (keys.size() < 12 && (keys.empty() || keys.back() != key)) keys.push_back(key);
  }
  return fmt::format(
      "not a configuration that is read (its keys: {}); read are Megatron-LM's MODEL_ARGS, NeMo's "
      "and Megatron-Bridge's `model`, FlagScale's `system`, accelerate's `distributed_type`, and "
      "the files of {}; or write the settings: model= tp= pp= micro_batch= ...",
      fmt::join(keys, ", "), fmt::join(launcher_names(), ", "));
}

// The key that tells a network other than a decoder, with the reason; "" if no key does.
std::string other_network(const LaunchValues& values) {
  for (const char* key :
       {"model.unet_config", "model.first_stage_config", "model.denoiser_config",
        "model.noise_schedule", "model.vision", "model.vision_encoder", "model.vision_model",
        "model.mm_cfg", "model.modality_adapter", "model.speech_encoder", "model.perception"})
    if (has_path(values, key))
      return fmt::format("{}: a network of images, speech or diffusion is not simulated", key);
  // Sizes of images and of the encoder of images, as FlagScale's configurations have them.
  for (const auto& [path, value] : values) {
    const std::string key = last_part(path);
    const bool of_images = key.starts_with("image_") || key.starts_with("img_") ||
                           key.starts_with("mm_") || key.starts_with("vision_");
    if (path.starts_with("model.") && of_images && !is_off_word(value.text()))
      return fmt::format("{}: a network of images is not simulated", path);
  }
  const auto model = values.find("modules.pre_trainer.model");
  if (model != values.end() && model->second.text().starts_with("diffusion/"))
    return "modules.pre_trainer.model: a diffusion network is not simulated";
  return "";
}

// FlagScale's `train.system` and Primus' overrides as the sections that of_nemo reads
// [AMD-AGI/Primus examples/megatron/configs: keys of Megatron-LM in `overrides`].
LaunchValues with_own_sections(LaunchValues values) {
  if (has_path(values, "train.system")) values = below(values, "train.");
  const auto program = values.find("modules.pre_trainer.framework");
  if (program == values.end() || program->second.text() != "megatron") return values;
  values = below(values, "modules.pre_trainer.overrides.", "model.");
  // [AMD-AGI/Primus primus/configs/modules/megatron/trainer_base.yaml: bf16]
  if (!values.contains("model.bf16") && !values.contains("model.fp16"))
    values["model.bf16"] = {{"true"}, 0};
  return values;
}

// The settings of the flags. `left`: keys without a meaning, for a note.
LaunchFile translated(const Launch& launch, const LaunchValues& values,
                      std::vector<std::string> left, const std::string& text,
                      const std::string& path) {
  const shell::Script script;
  LaunchFile file;
  file.arguments = Translator(launch, script, text, path).run();
  // Megatron-Bridge keeps the batch in `train`. Its recipes say what the file does not; a file with
  // its own data parallelism (`ddp`), as `plan` writes it, is complete.
  const bool batch =
      has_path(values, "train.global_batch_size") || has_path(values, "train.micro_batch_size");
  if (batch && !has_path(values, "ddp.use_distributed_optimizer"))
    file.arguments.framework = "megatron-bridge";
  nemo_adapters(values, path, file.arguments);
  add_fp8_parameters(values, path, file.arguments);
  std::erase_if(left, [](const std::string& key) {
    return key.starts_with("model.peft.") || key.starts_with("peft.");
  });
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

}  // namespace

LaunchFile read_launch_yaml(const std::string& text, const std::string& path) {
  if (text.size() > max_launch_bytes) return refused_launch(path, "too large for a configuration");
  LaunchValues values;
  try {
    values = yaml_values(text);
  } catch (const YAML::Exception& error) {
    return refused_launch(fmt::format("{}:{}:{}", path, error.mark.line + 1, error.mark.column + 1),
                          fmt::format("not YAML: {}", error.msg));
  }
  // A job of MosaicML's platform has the configuration below `parameters`.
  if (has_path(values, "parameters") && has_path(values, "command"))
    values = below(values, "parameters.");
  if (has_path(values, "distributed_type")) return read_accelerate(values, text, path);
  if (auto file = read_by_launcher(values, text, path)) return std::move(*file);
  if (const std::string why = other_network(values); !why.empty()) return refused_launch(path, why);
  values = with_own_sections(std::move(values));
  const bool of_command =
      has_path(values, "MODEL_ARGS.trainer") || has_path(values, "MODEL_ARGS.model");
  if (!has_path(values, "MODEL_ARGS")) {
    if (!is_of_megatron(values)) return refused_launch(path, unread_configuration(values));
    return read_megatron_keys(values, text, path);
  }
  std::vector<std::string> left;
  // A NeMo command line in a file of the same format.
  Launch launch = of_command ? of_nemo(below(values, "MODEL_ARGS."), left) : of_arguments(values);
  program_of_folder(path, launch);
  return translated(launch, values, std::move(left), text, path);
}

LaunchFile read_megatron_keys(const LaunchValues& given, const std::string& text,
                              const std::string& path) {
  const LaunchValues values = with_mixed_precision(given);
  std::vector<std::string> left;
  const Launch launch = of_nemo(values, left);
  return translated(launch, values, std::move(left), text, path);
}

}  // namespace sim::input
