// megatron_policy.cpp — translates the flags of recomputation and offloading, and finds ignored
// flags.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/input/launch/megatron_translator.h"
#include "sim/input/resolve/dependent_settings.h"

namespace sim::input {
namespace {

constexpr std::string_view latent_flag = "multi-latent-attention";

}  // namespace

std::string Translator::needed(std::string_view name, std::string_view setting) const {
  // NeMo disables it; Megatron-LM raises an error [training/arguments.py: validate_args].
  if (name == "tp-comm-overlap")
    return has("sequence-parallel") ? "" : "it needs --sequence-parallel";
  const std::optional<Feature> feature = feature_of(setting.substr(0, setting.find('=')));
  if (!feature) return {};
  // A script without a network may be used with a model that has experts.
  if (*feature == Feature::experts && (has_experts() || !has("num-layers"))) return {};
  const auto& flags = flags_of(*feature);
  const bool there =
      std::ranges::any_of(flags, [&](std::string_view flag) { return !flag.empty() && has(flag); });
  if (there && *feature != Feature::experts) return {};
  return fmt::format("without --{} nothing reads it", flags.front());
}

bool Translator::has_module(std::string_view name) const {
  const bool mixture = has_experts();
  if (name == "moe" || name == "moe_act") return mixture;
  if (name == "shared_experts") return mixture && has("moe-shared-expert-intermediate-size");
  if (name == "mla_up_proj") return has(latent_flag);
  if (name == "layernorm") return mixture || has(latent_flag);
  const std::string frequency = value("moe-layer-freq");
  if (name == "mlp") return !mixture || !(frequency.empty() || frequency == "1");
  return name != "gdn";  // "gdn" belongs to state-space layers
}

void Translator::recomputation() {
  if (const Given* layer = find("moe-layer-recompute");
      layer && has_experts() && !has("recompute-granularity")) {
    set(*layer, "recompute=selective");
    set(*layer, "recompute_modules=moe");
  }
  if (const Given* old = find("checkpoint-activations")) {
    set(*old, "recompute=full");
    set(*old, "recompute_method=uniform");
  }
  if (const Given* method = find("activations-checkpoint-method"))
    if (!has("activations-checkpoint-granularity")) set(*method, "recompute=full");
  std::string list;
  const Given* modules = find("recompute-modules");
  if (modules)
    if (const std::string other = needed("recompute-modules", "recompute_modules");
        !other.empty()) {
      note(*modules, other);
      modules = nullptr;
    }
  if (modules)
    for (const shell::Word& word : modules->values) {
      if (has_module(word.text))
        list += (list.empty() ? "" : ",") + word.text;
      else
        note(*modules, fmt::format("the model has no {}", word.text.substr(0, 40)));
    }
  if (!list.empty()) set(*modules, "recompute_modules=" + list);
  const Given* kind = find({"recompute-granularity", "activations-checkpoint-granularity"});
  const bool nothing = modules && list.empty();  // the model has none of the named modules
  if (kind && nothing && kind->value() == "selective")
    set(*kind, "recompute=none");
  else if (kind)
    set_value(*kind, "recompute");
  if (const Given* layers = find(
          {"recompute-num-layers", "activations-checkpoint-num-layers", "checkpoint-num-layers"}))
    set_value(*layers, "recompute_layers");
}

// Megatron-DeepSpeed has experts in every --expert-interval-th layer (2), and each token chooses
// --topk of them (1). A rank group of --moe-expert-parallel-size shares them.
// [Megatron-DeepSpeed megatron/arguments.py:_add_distributed_args, _add_mixture_args;
// model/transformer.py:ParallelTransformer]
void Translator::deepspeed_experts() {
  const Given* count = find("num-experts");
  if (!count) return;
  if (count->values.size() > 1)
    for (const shell::Word& word : count->values)
      if (word.text != count->value())
        return refuse(count->flag, "layers with unlike numbers of experts are not simulated");
  set_value(*count, "architecture.num_experts");
  if (const Given* topk = find("topk"))
    set_value(*topk, "architecture.experts_per_token");
  else
    set(*count, "architecture.experts_per_token=1");
  if (const Given* ranks = find("moe-expert-parallel-size")) set_value(*ranks, "ep");
  const std::int64_t interval =
      has("expert-interval") ? number(find("expert-interval")).value_or(1) : 2;
  const std::int64_t layers = number(find({"num-layers", "encoder-num-layers"})).value_or(0);
  if (interval > 1 && layers % interval == 0 && layers > 0)
    set(*count, fmt::format("architecture.expert_layers=([0]*{}+[1]*1)*{}", interval - 1,
                            layers / interval));
  else if (interval > 1)
    refuse(count->flag, fmt::format("experts in every layer number {} of {} layers are not "
                                    "simulated; write architecture.expert_layers=",
                                    interval, layers));
  for (const char* setting : {"grouped_gemm=false", "permute_fusion=false"}) set(*count, setting);
}

void Translator::offloaded_modules() {
  const Given* modules = find("offload-modules");
  if (!has("fine-grained-activation-offloading") || !modules) return;
  std::string list;
  for (const shell::Word& word : modules->values) list += (list.empty() ? "" : ",") + word.text;
  set(*modules, "offload_modules=" + list);
}

// --cuda-graph-impl says who captures (none, local, transformer_engine, full_iteration), and
// --enable-cuda-graph and --external-cuda-graph are its older forms; the scope or the modules say
// what. Without them it is a whole layer. Layers of experts are captured up to their dispatcher,
// after which the number of rows changes.
// [NVIDIA/Megatron-LM core 0.12 to 0.19 transformer/transformer_config.py: cuda_graph_*]
void Translator::cuda_graphs() {
  const Given* impl = find("cuda-graph-impl");
  const Given* scope = find({"cuda-graph-modules", "cuda-graph-scope"});
  const Given* whole = find("full-iteration-cuda-graph");
  const Given* by = impl ? impl : find({"enable-cuda-graph", "external-cuda-graph"});
  if (!by) by = whole;
  if (!by || (impl && impl->value() == "none")) return;
  std::vector<std::string> parts;
  if (whole || (impl && impl->value() == "full_iteration")) parts = {"full_iteration"};
  const bool experts = has_experts();
  const bool named = scope && parts.empty();
  for (const shell::Word& word : named ? scope->values : std::vector<shell::Word>{}) {
    if (word.text == "mamba" || (word.text == "mlp" && experts)) {
      note(*scope, fmt::format("the model has no {}", word.text));
    } else if (word.text != "full") {
      parts.push_back(word.text);
    }
  }
  if (parts.empty())
    parts = experts ? std::vector<std::string>{"attn", "moe_router", "moe_preprocess"}
                    : std::vector<std::string>{"attn", "mlp"};
  set(scope ? *scope : *by, fmt::format("cuda_graph_modules={}", fmt::join(parts, ",")));
}

// Flags of forks that select a schedule. --zero-bubble-max-pending-backward is the number of stages
// for ZB-1p, and twice it for ZB-2p. "auto" fills the memory, as ZB-2p does.
// [sail-sg/zero-bubble-pipeline-parallelism README.md; sail-sg/VocabularyParallelism README.md,
// megatron/training/arguments.py; deepspeedai/Megatron-DeepSpeed megatron/arguments.py]
void Translator::schedule_of_fork() {
  if (const Given* v = find("zero-bubble-v-schedule")) {
    const std::string setup = value("zero-bubble-v-schedule-mem-setup");
    set(*v, setup == "half"  ? "schedule=v-half"
            : setup == "min" ? "schedule=v-min"
                             : "schedule=zb-v");
  } else if (const Given* zero = find("enable-zero-bubble")) {
    const std::string pending = value("zero-bubble-max-pending-backward");
    const bool is_short = pending == value("pipeline-model-parallel-size");
    set(*zero, is_short ? "schedule=zb-1p" : "schedule=zb-2p");
  } else if (const Given* h1 = find("enable-zbh1-pipeline")) {
    set(*h1, "schedule=zb-h1");
  } else if (const Given* vocab = find("enable-vocab-parallel")) {
    const Given* two = find("disable-backward-fusion");
    set(two ? *two : *vocab, two ? "schedule=vocab-1" : "schedule=vocab-2");
  } else if (const Given* interlaced = find("use-interlaced-schedule")) {
    set(*interlaced, "schedule=vocab-interlaced");
  }
  const Given* last = find("final-stage-num-layers");
  if (last && has("enable-layer-redistribution")) set_value(*last, "last_stage_layers");
}

}  // namespace sim::input
