#include "sim/config/megatron.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "sim/core/text.h"

namespace sim::config {
namespace {

struct Flag {
  std::string_view name;     // without dashes, '_' as '-'
  std::string_view setting;  // "tp=" takes the flag's value; "precision=bf16" is set as it is
};
constexpr std::array flags{
    Flag{"tensor-model-parallel-size", "tp="},
    Flag{"pipeline-model-parallel-size", "pp="},
    Flag{"context-parallel-size", "cp="},
    Flag{"num-layers-per-virtual-pipeline-stage", "layers_per_virtual_stage="},
    Flag{"num-virtual-stages-per-pipeline-rank", "virtual_stages="},
    Flag{"micro-batch-size", "micro_batch="},
    Flag{"global-batch-size", "global_batch="},
    Flag{"seq-length", "sequence="},
    Flag{"sequence-parallel", "sequence_parallel=true"},
    Flag{"use-distributed-optimizer", "distributed_optimizer=true"},
    Flag{"overlap-grad-reduce", "overlap_grad_reduce=true"},
    Flag{"overlap-param-gather", "overlap_param_gather=true"},
    Flag{"tp-comm-overlap", "tp_comm_overlap=true"},
    Flag{"recompute-granularity", "recompute="},
    Flag{"recompute-activations", "recompute=selective"},
    Flag{"recompute-method", "recompute_method="},
    Flag{"recompute-num-layers", "recompute_layers="},
    Flag{"use-flash-attn", ""},  // a wish; TransformerEngine chooses by GPU (attention left out)
    Flag{"bf16", "precision=bf16"},
    Flag{"fp16", "precision=fp16"},
    Flag{"accumulate-allreduce-grads-in-fp32", "fp32_gradients=true"},
    Flag{"grad-reduce-in-bf16", "fp32_gradients=false"},
    Flag{"no-bias-swiglu-fusion", "swiglu_fusion=false"},
    Flag{"no-rope-fusion", "rope_fusion=false"},
    Flag{"no-gradient-accumulation-fusion", "gradient_accumulation_fusion=false"},
    Flag{"no-create-attention-mask-in-dataloader", "attention_mask=false"},
    Flag{"reset-attention-mask", "reset_attention_mask=true"},
    Flag{"num-workers", "data_workers="},
    Flag{"no-check-for-nan-in-loss-and-grad", "check_for_nan=false"},
    Flag{"decoder-first-pipeline-num-layers", "first_stage_layers="},
    Flag{"decoder-last-pipeline-num-layers", "last_stage_layers="},
    Flag{"account-for-embedding-in-pipeline-split", "account_for_embedding=true"},
    Flag{"account-for-loss-in-pipeline-split", "account_for_loss=true"},
    Flag{"use-precision-aware-optimizer", "precision_aware_optimizer=true"},
    Flag{"main-params-dtype", "main_params_dtype="},
    Flag{"exp-avg-dtype", "exp_avg_dtype="},
    Flag{"exp-avg-sq-dtype", "exp_avg_sq_dtype="},
    Flag{"cpu-offloading-num-layers", "offload_layers="},
    Flag{"optimizer-cpu-offload", "optimizer_cpu_offload=true"},
    Flag{"optimizer-offload-fraction", "optimizer_offload_fraction="},
    Flag{"fp8-hybrid", "fp8=true"},
    Flag{"fp8-e4m3", "fp8=true"},
    Flag{"fp8-param-gather", "fp8_parameters=true"},
    Flag{"use-torch-fsdp2", "data_parallel=fsdp2"},
    Flag{"num-layers", "architecture.layers="},
    Flag{"hidden-size", "architecture.hidden="},
    Flag{"ffn-hidden-size", "architecture.ffn="},
    Flag{"num-attention-heads", "architecture.heads="},
    Flag{"kv-channels", "architecture.head_dim="},
    Flag{"vocab-size", "architecture.vocab="},
    Flag{"max-position-embeddings", "architecture.max_positions="},
    Flag{"swiglu", "architecture.activation=swiglu"},
    Flag{"add-qkv-bias", "architecture.qkv_bias=true"},
    Flag{"untie-embeddings-and-output-weights", "architecture.tied_embeddings=false"},
    Flag{"attention-dropout", "architecture.attention_dropout="},
    Flag{"hidden-dropout", "architecture.hidden_dropout="},
    // Read together with others, below.
    Flag{"num-query-groups", ""},
    Flag{"group-query-attention", ""},
    Flag{"normalization", ""},
    Flag{"position-embedding-type", ""},
    Flag{"use-rotary-position-embeddings", ""},
    Flag{"disable-bias-linear", ""},
    Flag{"clip-grad", ""},
    Flag{"fp8-format", ""},
    Flag{"attention-backend", ""},
    Flag{"transformer-impl", ""},
    Flag{"nnodes", ""},
    Flag{"nproc-per-node", ""},
};

// Changes what a rank does in a way that is not simulated: an answer would be of another run.
constexpr std::array refused{
    std::string_view{"num-experts"},
    std::string_view{"cpu-offloading"},
    std::string_view{"standalone-embedding-stage"},
    std::string_view{"multi-latent-attention"},
    std::string_view{"mtp-num-layers"},
    std::string_view{"use-custom-fsdp"},
};

// Changes times or memory a little; said in the notes.
constexpr std::array noted{
    std::string_view{"tp-comm-overlap"},
    std::string_view{"delay-grad-reduce"},
    std::string_view{"ddp-bucket-size"},
    std::string_view{"distribute-saved-activations"},
    std::string_view{"use-tp-pp-dp-mapping"},
    std::string_view{"overlap-p2p-communication"},
    std::string_view{"no-overlap-p2p-communication"},
    std::string_view{"enable-cuda-graph"},
    std::string_view{"defer-embedding-wgrad-compute"},
    std::string_view{"use-cpu-initialization"},
    std::string_view{"make-vocab-size-divisible-by"},
    std::string_view{"rampup-batch-size"},
    std::string_view{"manual-gc"},
    std::string_view{"cross-entropy-loss-fusion"},
};

struct Given {
  std::string value;  // "" for a switch
  Word word;          // of the flag
  std::string unknown_variable;
};
using Script = std::map<std::string, Given, std::less<>>;  // flags, and NAME for NAME=value

std::string plain(std::string_view flag) {
  while (flag.starts_with('-')) flag.remove_prefix(1);
  std::string text(flag);
  for (char& c : text)
    if (c == '_') c = '-';
  return text;
}

bool is_flag(std::string_view text) {
  return text.size() > 2 && text.starts_with("--") && text[2] >= 'A' && text[2] <= 'z';
}

// ARGS="--a 1": the first word of a quoted list carries the variable's name.
void drop_variable_name(Word& word) {
  const std::size_t dashes = word.text.find("=--");
  if (dashes != std::string::npos && !word.text.starts_with('-')) word.text.erase(0, dashes + 1);
}

Script collect(std::vector<Word> words) {
  Script script;
  for (std::size_t i = 0; i < words.size(); ++i) {
    Word word = words[i];
    drop_variable_name(word);
    const std::size_t equals = word.text.find('=');
    if (!is_flag(word.text)) {
      if (equals != std::string::npos && equals > 0)
        script[word.text.substr(0, equals)] = {word.text.substr(equals + 1), word,
                                               word.unknown_variable};
      continue;
    }
    Given given{"", word, ""};
    if (equals != std::string::npos) {
      given.value = word.text.substr(equals + 1);
      given.unknown_variable = word.unknown_variable;
    } else if (i + 1 < words.size() && !is_flag(words[i + 1].text)) {
      given.value = words[i + 1].text;
      given.unknown_variable = words[i + 1].unknown_variable;
    }
    script[plain(std::string_view(word.text).substr(0, equals))] = std::move(given);
  }
  return script;
}

class Translator {
 public:
  Translator(const Script& script, std::string path) : script_(script), path_(std::move(path)) {}

  MegatronArguments run() {
    for (const auto& [name, given] : script_) plain_flag(name, given);
    if (describes_model()) model();
    world();
    switches();
    environment();
    return std::move(out_);
  }

 private:
  std::string where(const Given& given) const {
    return fmt::format("{}:{}:{}", path_, given.word.line, given.word.column);
  }
  const Given* find(std::string_view name) const {
    const auto found = script_.find(name);
    return found == script_.end() ? nullptr : &found->second;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string value(std::string_view name) const {
    const Given* given = find(name);
    return given ? given->value : "";
  }
  void set(const Given& given, std::string text) {
    out_.settings.push_back({std::move(text), where(given)});
  }
  bool known_value(std::string_view name, const Given& given) {
    if (given.unknown_variable.empty()) return true;
    out_.problems.push_back(
        {where(given), fmt::format("the value of --{} is {}, which the text does not define; write "
                                   "the value in its place",
                                   name, variable(given.unknown_variable))});
    return false;
  }
  static std::string variable(const std::string& name) {
    return name.starts_with('$') ? name : fmt::format("${}", name);
  }

  void plain_flag(const std::string& name, const Given& given) {
    for (const std::string_view no : refused)
      if (no == name)
        out_.problems.push_back(
            {where(given), fmt::format("--{} is not simulated; remove it to see the run without "
                                       "it",
                                       name)});
    for (const std::string_view note : noted)
      if (note == name) out_.notes.push_back(fmt::format("--{} is not simulated", name));
    if (name == "expert-model-parallel-size" && given.value != "1")
      out_.problems.push_back({where(given), "experts are not simulated; remove --" + name});
    bool known = false;
    for (const Flag& flag : flags) {
      if (flag.name != name) continue;
      known = true;
      if (flag.setting.empty()) continue;
      if (!flag.setting.ends_with('=')) {
        set(given, std::string(flag.setting));
      } else if (known_value(name, given)) {
        set(given, std::string(flag.setting) + given.value);
      }
    }
    if (!known) misspelt(name, given);
  }

  // A flag that is one or two letters from one that matters, and is not a flag of its own.
  void misspelt(const std::string& name, const Given& given) {
    if (!is_flag(given.word.text)) return;
    for (const Flag& flag : flags) {
      const int distance = edit_distance(name, flag.name);
      if (distance == 0 || distance > 2 || flag.name.size() < 8) continue;
      if (name == std::string("no-") + std::string(flag.name)) continue;
      out_.problems.push_back({where(given), fmt::format("Megatron-LM has no flag --{}; did you "
                                                         "mean --{}?",
                                                         name, flag.name)});
      return;
    }
  }

  bool describes_model() const {
    return has("num-layers") || has("hidden-size") || has("num-attention-heads");
  }

  // Where the flags of a network say nothing, Megatron-LM builds a GPT: LayerNorm, learned
  // positions, GELU, biases, tied embeddings, dropout 0.1.
  void model() {
    const Given& first = *find(has("num-layers")    ? "num-layers"
                               : has("hidden-size") ? "hidden-size"
                                                    : "num-attention-heads");
    const auto otherwise = [&](std::string_view flag, std::string text) {
      if (!has(flag)) set(first, std::move(text));
    };
    otherwise("swiglu", "architecture.activation=gelu");
    otherwise("untie-embeddings-and-output-weights", "architecture.tied_embeddings=true");
    otherwise("attention-dropout", "architecture.attention_dropout=0.1");
    otherwise("hidden-dropout", "architecture.hidden_dropout=0.1");
    const bool biases = !has("disable-bias-linear");
    set(first, fmt::format("architecture.linear_bias={}", biases));
    if (biases) set(first, "architecture.qkv_bias=true");
    const bool rms = value("normalization") == "RMSNorm";
    set(first, fmt::format("architecture.norm={}", rms ? "rms" : "layer"));
    const bool rope =
        value("position-embedding-type") == "rope" || has("use-rotary-position-embeddings");
    set(first, fmt::format("architecture.position={}", rope ? "rope" : "learned"));
    const Given* groups = find("num-query-groups");
    if (has("group-query-attention") && groups && known_value("num-query-groups", *groups))
      set(*groups, "architecture.kv_heads=" + groups->value);
    if (has("swiglu") && !has("ffn-hidden-size")) {
      // Two thirds of 4 x hidden, in multiples of 64.
      const std::int64_t hidden = number("hidden-size").value_or(0);
      if (hidden > 0) set(first, fmt::format("architecture.ffn={}", 4 * hidden * 2 / 3 / 64 * 64));
    }
  }

  std::optional<std::int64_t> number(std::string_view name) const {
    const std::string text = value(name);
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole && n > 0 && n <= 1 << 20 ? std::optional(n) : std::nullopt;
  }

  // The GPUs that torchrun starts; the command line may say otherwise.
  void world() {
    const auto per_node = number("nproc-per-node");
    const auto nodes = number("nnodes");
    if (!per_node) {
      if (nodes) set(*find("nnodes"), fmt::format("nodes={}", *nodes));
      return;
    }
    if (!nodes && has("nnodes")) {
      known_value("nnodes", *find("nnodes"));
      return;
    }
    set(*find("nproc-per-node"), fmt::format("gpus={}", *per_node * nodes.value_or(1)));
  }

  void switches() {
    // Megatron-LM turns fp32 accumulation on with bf16 by itself.
    if (has("bf16") && !has("grad-reduce-in-bf16")) set(*find("bf16"), "fp32_gradients=true");
    if (const Given* clip = find("clip-grad");
        clip && clip->value.find_first_not_of("0.") == std::string::npos)
      set(*clip, "gradient_clipping=false");
    if (const Given* format = find("fp8-format")) set(*format, "fp8=true");
    if (const Given* local = find("transformer-impl"); local && local->value == "local")
      set(*local, fmt::format("attention={}", has("use-flash-attn") ? "flash" : "unfused"));
    if (const Given* backend = find("attention-backend"); backend && backend->value != "auto")
      set(*backend, fmt::format("attention={}", backend->value == "fused"   ? "cudnn"
                                                : backend->value == "local" ? "unfused"
                                                                            : backend->value));
  }

  void environment() {
    if (const Given* streams = find("TORCH_NCCL_AVOID_RECORD_STREAMS"))
      if (streams->value == "1") set(*streams, "avoid_record_streams=true");
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
      if (const Given* options = find(name); options && !options->value.empty())
        set(*options, "allocator_options=" + options->value);
  }

  const Script& script_;
  std::string path_;
  MegatronArguments out_;
};

}  // namespace

MegatronArguments read_megatron(const std::string& text, const std::string& path) {
  const Script script = collect(shell_words(text));
  return Translator(script, path).run();
}

rehearse::v1::Plan megatron_defaults() {
  rehearse::v1::Plan plan;
  plan.set_sequence_parallel(false);
  plan.set_distributed_optimizer(false);
  plan.set_overlap_grad_reduce(false);
  plan.set_overlap_param_gather(false);
  plan.set_precision(rehearse::v1::Plan::fp32);
  plan.set_fp32_gradients(false);
  return plan;
}

}  // namespace sim::config
