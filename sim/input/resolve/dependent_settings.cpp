#include "sim/input/resolve/dependent_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "sim/base/text.h"
#include "sim/program/plan/recompute_modules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using Problems = Diagnostics;

// The message for settings without their feature, and the flags that turn the feature on.
struct MissingFeature {
  std::string_view rule;
  std::array<std::string_view, 2> flags;
};

const MissingFeature& message_of(Feature feature) {
  static constexpr MissingFeature latent{
      "of latent attention, which the model does not have; write kv_lora_rank too, or leave it out",
      {"multi-latent-attention"}};
  static constexpr MissingFeature experts{
      "of a mixture of experts, which the model is not; write num_experts too, or leave it out",
      {"num-experts"}};
  static constexpr MissingFeature modules{
      "of modules whose saved tensors go to the CPU; write offload_modules too, or leave it out",
      {"fine-grained-activation-offloading"}};
  static constexpr MissingFeature optimizer{
      "of an optimizer on the CPU; write optimizer_cpu_offload true too, or leave it out",
      {"optimizer-cpu-offload", "cpu-optimizer"}};
  static constexpr MissingFeature selective{
      "of recompute selective; write recompute selective too, or leave it out",
      {"recompute-granularity", "activations-checkpoint-granularity"}};
  switch (feature) {
    case Feature::latent_attention:
      return latent;
    case Feature::experts:
      return experts;
    case Feature::offloaded_modules:
      return modules;
    case Feature::cpu_optimizer:
      return optimizer;
    case Feature::selective_recompute:
      break;
  }
  return selective;
}

constexpr std::pair<std::string_view, Feature> settings[] = {
    {"architecture.q_lora_rank", Feature::latent_attention},
    {"architecture.qk_head_dim", Feature::latent_attention},
    {"architecture.qk_pos_emb_head_dim", Feature::latent_attention},
    {"architecture.v_head_dim", Feature::latent_attention},
    {"architecture.experts_per_token", Feature::experts},
    {"architecture.expert_ffn", Feature::experts},
    {"architecture.shared_expert_ffn", Feature::experts},
    {"architecture.expert_layers", Feature::experts},
    {"architecture.router_score", Feature::experts},
    {"architecture.router_pre_softmax", Feature::experts},
    {"architecture.router_groups", Feature::experts},
    {"architecture.router_top_groups", Feature::experts},
    {"architecture.expert_bias", Feature::experts},
    {"architecture.auxiliary_loss", Feature::experts},
    {"architecture.router_bias", Feature::experts},
    {"etp", Feature::experts},
    {"dispatcher", Feature::experts},
    {"router", Feature::experts},
    {"router_skew", Feature::experts},
    {"router_seed", Feature::experts},
    {"capacity_factor", Feature::experts},
    {"pad_to_capacity", Feature::experts},
    {"grouped_gemm", Feature::experts},
    {"legacy_grouped_gemm", Feature::experts},
    {"permute_fusion", Feature::experts},
    {"fp32_router", Feature::experts},
    {"late_probabilities", Feature::experts},
    {"overlap_expert_all_to_all", Feature::experts},
    {"offload_min_elements", Feature::offloaded_modules},
    {"activation_offload_fraction", Feature::offloaded_modules},
    {"offload_delta_bytes", Feature::offloaded_modules},
    {"overlap_cpu_optimizer", Feature::cpu_optimizer},
    {"optimizer_offload_fraction", Feature::cpu_optimizer},
    {"recompute_modules", Feature::selective_recompute},
};

bool does(const v1::Plan& given, const program::Plan& plan, Feature feature) {
  switch (feature) {
    case Feature::latent_attention:
      return plan.architecture.is_latent();
    case Feature::experts:
      return plan.architecture.is_mixture();
    case Feature::offloaded_modules:
      return plan.policy.offload_modules != 0;
    case Feature::cpu_optimizer:
      return given.optimizer_cpu_offload();
    // A plan that sets another recompute mode may keep recompute_modules for later use.
    case Feature::selective_recompute:
      break;
  }
  return given.has_recompute() || plan.policy.recompute == program::Recompute::selective;
}

// True if the field is set, and is not a bool with the value false.
bool says(const google::protobuf::Message& message, std::string_view name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  assert(field != nullptr);
  const auto& reflection = *message.GetReflection();
  if (!reflection.HasField(message, field)) return false;
  return field->type() != google::protobuf::FieldDescriptor::TYPE_BOOL ||
         reflection.GetBool(message, field);
}

void refuse(const std::vector<std::string>& names, const std::string& field, std::string_view rule,
            Problems& problems) {
  if (names.empty()) return;
  problems.push_back({field, fmt::format("{} {} {}", listed(names, "and"),
                                         names.size() > 1 ? "are" : "is", rule)});
}

}  // namespace

std::optional<Feature> feature_of(std::string_view setting) {
  for (const auto& [name, feature] : settings)
    if (name == setting) return feature;
  return {};
}

const std::array<std::string_view, 2>& flags_of(Feature feature) {
  return message_of(feature).flags;
}

Diagnostics settings_without_effect(const v1::Plan& given, const program::Plan& plan) {
  constexpr std::string_view network = "architecture.";
  Problems problems;
  for (const Feature feature :
       {Feature::latent_attention, Feature::experts, Feature::offloaded_modules,
        Feature::cpu_optimizer, Feature::selective_recompute}) {
    if (does(given, plan, feature)) continue;
    std::vector<std::string> of_network;
    for (const auto& [name, its] : settings)
      if (its == feature && name.starts_with(network) &&
          says(given.architecture(), name.substr(network.size())))
        of_network.emplace_back(name.substr(network.size()));
    refuse(of_network, "architecture", message_of(feature).rule, problems);
    for (const auto& [name, its] : settings)
      if (its == feature && !name.starts_with(network) && says(given, name))
        refuse({std::string(name)}, std::string(name), message_of(feature).rule, problems);
  }
  // [Megatron-LM training/arguments.py: validate_args, "only when sequence parallelism is enabled"]
  if (given.tp_comm_overlap() && plan.mesh.tp > 1 && !plan.mesh.sequence_parallel)
    problems.push_back({"tp_comm_overlap",
                        "tp_comm_overlap cuts the messages of sequence parallelism into pieces; "
                        "turn sequence_parallel on, or leave tp_comm_overlap out"});
  if (given.has_recompute_modules())
    for (std::string& problem :
         program::absent_modules(plan.policy.recompute_modules, plan.architecture))
      problems.push_back({"recompute_modules", std::move(problem)});
  return problems;
}

}  // namespace sim::input
