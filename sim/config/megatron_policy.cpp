// megatron_policy.cpp — what the flags of a launch say that layers keep, run again or leave to the
// CPU, and which flags say nothing without another.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/megatron_translator.h"

namespace sim::config {
namespace {

// A flag, those of which one must stand beside it, and what a note says where none does.
struct Needs {
  std::string_view flag;
  std::array<std::string_view, 2> others;
  std::string_view reason;
};
constexpr std::string_view latent = "multi-latent-attention";
constexpr std::string_view modules = "fine-grained-activation-offloading";
constexpr std::string_view no_latent = "without --multi-latent-attention nothing reads it";
constexpr std::string_view no_modules =
    "without --fine-grained-activation-offloading nothing reads it";
constexpr std::string_view no_offload = "without --optimizer-cpu-offload nothing reads it";
constexpr std::array needs{
    Needs{"q-lora-rank", {latent}, no_latent},
    Needs{"qk-head-dim", {latent}, no_latent},
    Needs{"qk-pos-emb-head-dim", {latent}, no_latent},
    Needs{"v-head-dim", {latent}, no_latent},
    Needs{"min-offloaded-tensor-size", {modules}, no_modules},
    Needs{"activation-offload-fraction", {modules}, no_modules},
    Needs{"delta-offload-bytes-across-pp-ranks", {modules}, no_modules},
    Needs{"overlap-cpu-optimizer-d2h-h2d", {"optimizer-cpu-offload", "cpu-optimizer"}, no_offload},
    Needs{"optimizer-offload-fraction", {"optimizer-cpu-offload", "cpu-optimizer"}, no_offload},
    // NeMo turns it off, Megatron-LM refuses it [training/arguments.py: validate_args].
    Needs{"tp-comm-overlap", {"sequence-parallel"}, "it needs --sequence-parallel"},
};

}  // namespace

std::string_view Translator::needed(std::string_view name, std::string_view setting) const {
  if (name.starts_with("moe-") && setting.starts_with("architecture.") && !has_experts())
    return "without --num-experts nothing reads it";
  const auto* const found = std::ranges::find(needs, name, &Needs::flag);
  if (found == needs.end()) return {};
  const bool there = std::ranges::any_of(
      found->others, [&](std::string_view other) { return !other.empty() && has(other); });
  return there ? std::string_view{} : found->reason;
}

bool Translator::has_module(std::string_view name) const {
  const bool mixture = has_experts();
  if (name == "moe" || name == "moe_act") return mixture;
  if (name == "shared_experts") return mixture && has("moe-shared-expert-intermediate-size");
  if (name == "mla_up_proj") return has(latent);
  if (name == "layernorm") return mixture || has(latent);
  const std::string frequency = value("moe-layer-freq");
  if (name == "mlp") return !mixture || !(frequency.empty() || frequency == "1");
  return name != "gdn";  // of layers with a state space
}

void Translator::recomputation() {
  if (const Given* old = find("checkpoint-activations")) {
    set(*old, "recompute=full");
    set(*old, "recompute_method=uniform");
  }
  if (const Given* method = find("activations-checkpoint-method"))
    if (!has("activations-checkpoint-granularity")) set(*method, "recompute=full");
  std::string list;
  const Given* modules = find("recompute-modules");
  if (modules)
    for (const shell::Word& word : modules->values) {
      if (has_module(word.text))
        list += (list.empty() ? "" : ",") + word.text;
      else
        note(*modules, fmt::format("the model has no {}", word.text.substr(0, 40)));
    }
  if (!list.empty()) set(*modules, "recompute_modules=" + list);
  const Given* kind = find({"recompute-granularity", "activations-checkpoint-granularity"});
  const bool nothing = modules && list.empty();  // of what is named is there
  if (kind && nothing && kind->value() == "selective")
    set(*kind, "recompute=none");
  else if (kind)
    set_value(*kind, "recompute");
  if (const Given* layers = find(
          {"recompute-num-layers", "activations-checkpoint-num-layers", "checkpoint-num-layers"}))
    set_value(*layers, "recompute_layers");
}

void Translator::offloaded_modules() {
  const Given* modules = find("offload-modules");
  if (!has("fine-grained-activation-offloading") || !modules) return;
  std::string list;
  for (const shell::Word& word : modules->values) list += (list.empty() ? "" : ",") + word.text;
  set(*modules, "offload_modules=" + list);
}

}  // namespace sim::config
