#include "sim/program/parallel/offload/module_offload.h"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

using enum OffloadModule;

// [core transformer/transformer_config.py:__post_init__: fine_grained_activation_offloading]
void megatron(const LayerPolicy& policy, Diagnostics& problems) {
  const auto problem = [&](std::string rule) {
    problems.push_back({"offload_modules", std::move(rule)});
  };
  if (policy.offload_layers > 0 || !policy.choices.empty() || policy.plans_choices)
    problem(
        "modules wait on the CPU or whole layers do; leave offload_layers and layer_choices "
        "out");
  if (policy.offloads(attn_proj) && !policy.offloads(core_attn))
    problem("attn_proj reads what core_attn's backward pass needs too; write core_attn beside it");
  if (policy.recompute == Recompute::full)
    problem("a layer that runs again saves its input alone; write recompute none or selective");
  if (policy.recompute == Recompute::selective && policy.recompute_modules.moe &&
      (policy.offloads(expert_fc1) || policy.offloads(moe_act) || policy.offloads(mlp_norm)))
    problem(
        "experts that run again save nothing inside; leave moe out of recompute_modules, or "
        "expert_fc1, moe_act and mlp_norm out of offload_modules");
}

// Combinations that are not simulated.
void together(const Plan& plan, Diagnostics& problems) {
  const LayerPolicy& policy = plan.policy;
  const RecomputeModules& modules = policy.recompute_modules;
  const bool selective = policy.recompute == Recompute::selective;
  const auto refuse = [&](bool broken, std::string_view rule) {
    if (broken)
      problems.push_back({"offload_modules",
                          fmt::format("modules are offloaded in Megatron-LM's layers {}", rule)});
  };
  refuse(plan.shards_parameters(), "with whole parameters; write data_parallel ddp");
  refuse(
      plan.stack.layer_kernels != LayerKernels::fused || plan.stack.layer_code != LayerCode::core,
      "of today; write layer_kernels fused and layer_code core");
  refuse(plan.numerics.fp8, "in 16 bits; write fp8 false");
  refuse(selective && modules.operators,
         "which know no recomputation of operators; write other "
         "recompute_modules");
  const bool made_again =
      plan.architecture.is_latent() && selective &&
      ((modules.norms && policy.offloads(qkv_linear)) ||
       (modules.latent && (policy.offloads(qkv_linear) || policy.offloads(core_attn))));
  refuse(made_again,
         "where nothing is both offloaded and made again; leave layernorm and mla_up_proj out of "
         "recompute_modules, or qkv_linear and core_attn out of offload_modules");
  refuse(plan.architecture.input_norms != model::InputNorms::each,
         "with a norm in front of each half; leave offload_modules out");
  refuse(plan.architecture.predicted_tokens > 1,
         "with one module that predicts at most; write mtp_layers 1");
  refuse(plan.experts.overlaps_all_to_all,
         "one microbatch at a time; leave the overlap of all-to-all out");
  refuse(plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1,
         "whose weights lie over tp ranks alone; write tensor_columns 1 and tensor_depth 1");
  const std::string& schedule = plan.pipeline.schedule;
  refuse(plan.architecture.predicted_tokens > 0 && schedule == "gpipe",
         "that predict where a backward pass follows directly; write schedule 1f1b");
  refuse(schedule != "gpipe" && schedule != "1f1b" && schedule != "interleaved-1f1b",
         "in its own schedules; write schedule 1f1b or interleaved-1f1b");
}

}  // namespace

void module_offload(const Plan& plan, Diagnostics& problems) {
  const LayerPolicy& policy = plan.policy;
  if (policy.offload_modules == 0) return;
  if (policy.offload_min_elements < 0)
    problems.push_back(
        {"offload_min_elements", fmt::format("offload_min_elements is {}; it must be 0 or more",
                                             policy.offload_min_elements)});
  if (!(policy.activation_offload_fraction >= 0 && policy.activation_offload_fraction <= 1))
    problems.push_back({"activation_offload_fraction",
                        fmt::format("activation_offload_fraction is {}; it must be 0 to 1",
                                    policy.activation_offload_fraction)});
  if (policy.offload_delta_bytes < 0)
    problems.push_back(
        {"offload_delta_bytes", fmt::format("offload_delta_bytes is {}; it must be 0 or more",
                                            policy.offload_delta_bytes)});
  megatron(policy, problems);
  together(plan, problems);
  const auto of = [&](std::initializer_list<OffloadModule> modules) {
    std::uint8_t bits = 0;
    for (const OffloadModule m : modules) bits |= bit_of(m);
    return (policy.offload_modules & static_cast<std::uint8_t>(~bits)) == 0;
  };
  const bool mixture = plan.architecture.is_mixture(), latent = plan.architecture.is_latent();
  if ((!mixture && of({expert_fc1, moe_act, mlp_norm, latent ? mlp_norm : attn_norm})) ||
      (!latent && of({attn_norm})))
    problems.push_back({"offload_modules",
                        "this model's layers have none of these; write qkv_linear, core_attn or "
                        "attn_proj (norms of dense layers are part of products)"});
}

}  // namespace sim::program::rules
