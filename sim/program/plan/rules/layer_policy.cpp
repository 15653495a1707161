#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program::rules {

namespace {

// Whether groups of recomputed layers divide a chunk.
bool recompute_chunk(const Plan& plan, int chunk, Diagnostics& problems) {
  if (chunk == 0) return true;  // only the embedding or only the head
  const std::size_t before = problems.size();
  const bool uniform = plan.policy.recompute_method == RecomputeMethod::uniform;
  if (uniform && (plan.policy.recompute_layers < 1 || chunk % plan.policy.recompute_layers != 0))
    problems.push_back(
        {"recompute_layers",
         fmt::format("uniform recompute in groups of {} layers does not divide the {} layers of a "
                     "{}; recompute_layers may be {}",
                     plan.policy.recompute_layers, chunk,
                     plan.pipeline.virtual_stages > 1 ? "chunk" : "stage", divisors(chunk))});
  if (!uniform && (plan.policy.recompute_layers < 0 || plan.policy.recompute_layers > chunk))
    problems.push_back(
        {"recompute_layers",
         fmt::format("block recompute of {} layers; recompute_layers may be 0 to {}, "
                     "the layers of a {}",
                     plan.policy.recompute_layers, chunk,
                     plan.pipeline.virtual_stages > 1 ? "chunk" : "stage")});
  return problems.size() == before;
}

}  // namespace

// REQUIRES: the layers can be split.
void recompute(const Plan& plan, Diagnostics& problems) {
  // PyTorch selects operators as it dispatches them. A fused module is a single operator for it.
  // Attention is on torchtitan's list of operators to keep [torch/utils/checkpoint.py; torchtitan
  // parallelize.py].
  const RecomputeModules& modules = plan.policy.recompute_modules;
  const bool dispatched = plan.stack.layer_kernels != LayerKernels::fused &&
                          plan.stack.attention != AttentionBackend::unfused;
  if (plan.policy.recompute == Recompute::selective && modules.operators &&
      (!dispatched || modules.core_attention || modules.mlp))
    problems.push_back(
        {"recompute_modules",
         "recomputing operators needs layer_kernels eager or compiled and fused attention, which "
         "PyTorch tells apart, and no other recompute module"});
  if (plan.policy.recompute != Recompute::full) return;
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    for (int part = 0; part < plan.pipeline.virtual_stages; ++part)
      if (!recompute_chunk(plan, plan.chunk_layers(stage, part), problems)) return;
  }
}

// REQUIRES: the layers can be split.
void choices(const Plan& plan, Diagnostics& problems) {
  const LayerPolicy& policy = plan.policy;
  if (policy.choices.empty() && !policy.plans_choices) return;
  const auto problem = [&](std::string rule) {
    problems.push_back({"layer_choices", std::move(rule)});
  };
  if (policy.recompute == Recompute::full || policy.offload_layers > 0)
    problem(
        "layer_choices say what runs again and what is offloaded; leave recompute full and "
        "offload_layers out");
  if (policy.recompute == Recompute::selective && policy.recompute_modules.operators)
    problem(
        "layer_choices keep or recompute whole layers, not operators; leave recompute_modules "
        "operators out");
  if (splits_backward(plan))
    problem(
        "a layer's choice holds until its backward pass, which this schedule splits; write a "
        "schedule that does not");
  if (policy.choices.empty()) return;
  int most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage)
    for (int part = 0; part < plan.pipeline.virtual_stages; ++part)
      most = std::max(most, plan.chunk_layers(stage, part));
  if (static_cast<int>(policy.choices.size()) != most)
    problem(fmt::format("{} layers have a choice; the longest chunk has {}", policy.choices.size(),
                        most));
  else if (policy.choices.back() == LayerChoice::swap)
    problem("the last layer's backward pass follows at once; write keep or recompute for it");
}

// REQUIRES: the layers can be split.
void offload(const Plan& plan, Diagnostics& problems) {
  if (plan.policy.offload_layers == 0) return;
  // The last layer cannot be offloaded, because its backward pass follows immediately [Megatron-LM
  // core transformer_config.py: cpu_offloading, for the whole model; here for each of its chunks].
  int most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage)
    for (int part = 0; part < plan.pipeline.virtual_stages; ++part)
      most = std::max(most, plan.chunk_layers(stage, part));
  if (plan.policy.offload_layers < 0 || plan.policy.offload_layers >= most)
    problems.push_back(
        {"offload_layers",
         fmt::format("offload_layers is {}; it must be 0 to {}, all layers{} but one",
                     plan.policy.offload_layers, most - 1,
                     plan.pipeline.virtual_stages > 1 ? " of a chunk"
                     : plan.mesh.pp > 1               ? " of a stage"
                                                      : "")});
}

}  // namespace sim::program::rules
