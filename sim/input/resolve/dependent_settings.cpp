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
struct Way {
  std::string_view rule;
  std::array<std::string_view, 2> flags;
};

const Way& way(Means means) {
  static constexpr Way latent{
      "of latent attention, which the model does not have; write kv_lora_rank too, or leave it out",
      {"multi-latent-attention"}};
  static constexpr Way experts{
      "of a mixture of experts, which the model is not; write num_experts too, or leave it out",
      {"num-experts"}};
  static constexpr Way modules{
      "of modules whose saved tensors go to the CPU; write offload_modules too, or leave it out",
      {"fine-grained-activation-offloading"}};
  static constexpr Way optimizer{
      "of an optimizer on the CPU; write optimizer_cpu_offload true too, or leave it out",
      {"optimizer-cpu-offload", "cpu-optimizer"}};
  static constexpr Way selective{
      "of recompute selective; write recompute selective too, or leave it out",
      {"recompute-granularity", "activations-checkpoint-granularity"}};
  switch (means) {
    case Means::latent_attention:
      return latent;
    case Means::experts:
      return experts;
    case Means::offloaded_modules:
      return modules;
    case Means::cpu_optimizer:
      return optimizer;
    case Means::selective_recompute:
      break;
  }
  return selective;
}

constexpr std::pair<std::string_view, Means> settings[] = {
    {"architecture.q_lora_rank", Means::latent_attention},
    {"architecture.qk_head_dim", Means::latent_attention},
    {"architecture.qk_pos_emb_head_dim", Means::latent_attention},
    {"architecture.v_head_dim", Means::latent_attention},
    {"architecture.experts_per_token", Means::experts},
    {"architecture.expert_ffn", Means::experts},
    {"architecture.shared_expert_ffn", Means::experts},
    {"architecture.expert_layers", Means::experts},
    {"architecture.router_score", Means::experts},
    {"architecture.router_pre_softmax", Means::experts},
    {"architecture.router_groups", Means::experts},
    {"architecture.router_top_groups", Means::experts},
    {"architecture.expert_bias", Means::experts},
    {"architecture.auxiliary_loss", Means::experts},
    {"architecture.router_bias", Means::experts},
    {"etp", Means::experts},
    {"dispatcher", Means::experts},
    {"router", Means::experts},
    {"router_skew", Means::experts},
    {"router_seed", Means::experts},
    {"capacity_factor", Means::experts},
    {"pad_to_capacity", Means::experts},
    {"grouped_gemm", Means::experts},
    {"legacy_grouped_gemm", Means::experts},
    {"permute_fusion", Means::experts},
    {"fp32_router", Means::experts},
    {"late_probabilities", Means::experts},
    {"overlap_expert_all_to_all", Means::experts},
    {"offload_min_elements", Means::offloaded_modules},
    {"activation_offload_fraction", Means::offloaded_modules},
    {"offload_delta_bytes", Means::offloaded_modules},
    {"overlap_cpu_optimizer", Means::cpu_optimizer},
    {"optimizer_offload_fraction", Means::cpu_optimizer},
    {"recompute_modules", Means::selective_recompute},
};

bool does(const v1::Plan& given, const program::Plan& plan, Means means) {
  switch (means) {
    case Means::latent_attention:
      return plan.architecture.is_latent();
    case Means::experts:
      return plan.architecture.is_mixture();
    case Means::offloaded_modules:
      return plan.policy.offload_modules != 0;
    case Means::cpu_optimizer:
      return given.optimizer_cpu_offload();
    // A plan that sets another recompute mode may keep recompute_modules for later use.
    case Means::selective_recompute:
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

std::optional<Means> means_of(std::string_view setting) {
  for (const auto& [name, means] : settings)
    if (name == setting) return means;
  return {};
}

const std::array<std::string_view, 2>& flags_of(Means means) {
  return way(means).flags;
}

Diagnostics needs(const v1::Plan& given, const program::Plan& plan) {
  constexpr std::string_view network = "architecture.";
  Problems problems;
  for (const Means means : {Means::latent_attention, Means::experts, Means::offloaded_modules,
                            Means::cpu_optimizer, Means::selective_recompute}) {
    if (does(given, plan, means)) continue;
    std::vector<std::string> of_network;
    for (const auto& [name, its] : settings)
      if (its == means && name.starts_with(network) &&
          says(given.architecture(), name.substr(network.size())))
        of_network.emplace_back(name.substr(network.size()));
    refuse(of_network, "architecture", way(means).rule, problems);
    for (const auto& [name, its] : settings)
      if (its == means && !name.starts_with(network) && says(given, name))
        refuse({std::string(name)}, std::string(name), way(means).rule, problems);
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
