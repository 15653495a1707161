#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "sim/base/text.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

// What the grid's code does not have [axonn-ai/Megatron-AxoNN].
void must_be_plain(const Plan& plan, const char* setting, Diagnostics& problems) {
  const auto refuse = [&](bool wrong, const char* field, const char* rule) {
    if (wrong) problems.push_back({field, fmt::format("{} goes with {}", setting, rule)});
  };
  const ShardingPlan& s = plan.sharding;
  refuse(plan.uses_sequence_parallel(), "sequence_parallel",
         "whole sequences; turn sequence_parallel off");
  refuse(plan.mesh.pp > 1 || plan.pipeline.virtual_stages > 1, "pp", "one stage; write pp 1");
  refuse(plan.mesh.cp > 1, "cp", "whole sequences on a rank; write cp 1");
  refuse(plan.numerics.fp8, "fp8", "products in 16 bits; write fp8 false");
  refuse(plan.trains_adapters(), "lora_rank", "training of all weights; leave lora_rank out");
  refuse(plan.architecture.is_mixture() || plan.architecture.is_latent(), "model",
         "dense models of plain attention");
  refuse(plan.architecture.input_norms != model::InputNorms::each, "model",
         "models with a norm in front of each half");
  refuse(plan.shards_parameters(), "data_parallel", "Megatron-LM's DDP; write data_parallel ddp");
  refuse(plan.stack.layer_kernels != LayerKernels::fused, "layer_kernels",
         "Megatron-LM's kernels; write layer_kernels fused");
  refuse(plan.policy.recompute == Recompute::selective, "recompute", "recompute none or full");
  refuse(!plan.policy.choices.empty() || plan.policy.plans_choices, "layer_choices",
         "the same for all layers; leave layer_choices out");
  refuse(plan.policy.offload_layers > 0, "offload_layers",
         "activations that stay; write offload_layers 0");
  refuse(plan.stack.tp_comm_overlap, "tp_comm_overlap",
         "whole messages; write tp_comm_overlap false");
  if (plan.mesh.tensor_depth == 1) return;
  refuse(plan.stack.gradient_accumulation_fusion, "gradient_accumulation_fusion",
         "gradients that are scattered; write gradient_accumulation_fusion false");
  refuse(s.distributed_optimizer || s.deepspeed_optimizer, "distributed_optimizer",
         "Megatron-LM's DDP; write distributed_optimizer false");
  refuse(s.overlap_grad_reduce, "overlap_grad_reduce",
         "gradients that are complete at a microbatch's end; write overlap_grad_reduce false");
}

}  // namespace

void tensor_grid(const Plan& plan, Diagnostics& problems) {
  const std::size_t before = problems.size();
  const MeshPlan& m = plan.mesh;
  if (m.tensor_columns < 1 || m.tp % m.tensor_columns != 0)
    problems.push_back(
        {"tensor_columns", fmt::format("tensor_columns {} does not divide tp {}; it may be {}",
                                       m.tensor_columns, m.tp, divisors(m.tp))});
  if (m.tensor_depth < 1 || m.dp % m.tensor_depth != 0)
    problems.push_back(
        {"tensor_depth", fmt::format("tensor_depth {} does not divide dp {}, of which it is a "
                                     "part; it may be {}",
                                     m.tensor_depth, m.dp, divisors(m.dp))});
  if (plan.stack.saved_depth_weights && m.tensor_depth == 1)
    problems.push_back({"saved_depth_weights",
                        "saved_depth_weights says what becomes of weights that are gathered; write "
                        "a tensor_depth above 1"});
  if (problems.size() > before) return;
  if (m.tensor_columns > 1 && plan.architecture.hidden % m.tensor_columns != 0)
    problems.push_back({"tensor_columns",
                        fmt::format("tensor_columns {} does not divide the model's {} columns; it "
                                    "may be {}",
                                    m.tensor_columns, plan.architecture.hidden,
                                    divisors(plan.architecture.hidden))});
  if (m.tensor_columns > 1)
    must_be_plain(plan, "tensor_columns", problems);
  else if (m.tensor_depth > 1)
    must_be_plain(plan, "tensor_depth", problems);
}

void tensor_parallel(const Plan& plan, Diagnostics& problems) {
  const model::Architecture& a = plan.architecture;
  // With tensor_columns, only tensor_rows() of the tp ranks split the heads and the MLP.
  const int ranks = plan.tensor_rows();
  const auto must_divide = [&](const char* what, std::int64_t n) {
    if (n % ranks != 0)
      problems.push_back(
          {"tp", fmt::format("tp{0} {1} does not divide the {2} {3}; tp{0} may be {4}",
                             ranks == plan.mesh.tp ? "" : " / tensor_columns", ranks, n, what,
                             divisors(n))});
  };
  must_divide("attention heads", a.heads);
  if (a.kv_heads != a.heads) must_divide("key-value heads", a.kv_heads);
  must_divide("columns of the MLP", a.ffn);
  if (a.heads % a.kv_heads != 0)
    problems.push_back(
        {"model", fmt::format("the model's {} heads do not share {} key-value heads evenly; "
                              "there may be {}",
                              a.heads, a.kv_heads, divisors(a.heads))});
}

void joined_halves(const Plan& plan, Diagnostics& problems) {
  if (plan.stack.joined_halves && plan.uses_sequence_parallel())
    problems.push_back({"joined_halves",
                        "joined_halves is simulated with whole sequences; turn sequence_parallel "
                        "off"});
}

void sequence_split(const Plan& plan, Diagnostics& problems) {
  const model::Architecture& a = plan.architecture;
  // A context-parallel rank holds two chunks, one from each end of the sequence (zig-zag order).
  const std::int64_t parts = plan.mesh.cp > 1 ? 2 * std::int64_t{plan.mesh.cp} : 1;
  if (plan.batch.sequence % parts != 0) {
    problems.push_back(
        {"sequence",
         fmt::format("sequence {} does not split into 2 x cp = {} parts; write {}",
                     plan.batch.sequence, parts, nearest_multiples(plan.batch.sequence, parts))});
  } else if (plan.uses_sequence_parallel() &&
             plan.batch.sequence / plan.mesh.cp % plan.mesh.tp != 0) {
    const std::int64_t step =
        std::int64_t{plan.mesh.cp} * plan.mesh.tp * (plan.mesh.cp > 1 ? 2 : 1);
    problems.push_back(
        {"sequence",
         fmt::format("sequence parallelism needs sequence / cp = {} to be a multiple of tp {}; "
                     "write sequence {}, or turn sequence_parallel off",
                     plan.batch.sequence / plan.mesh.cp, plan.mesh.tp,
                     nearest_multiples(plan.batch.sequence, step))});
  }
  if (plan.batch.packed_document != 0 &&
      (plan.batch.packed_document < parts || plan.batch.packed_document > plan.batch.sequence))
    problems.push_back(
        {"packed_document",
         fmt::format("packed_document is {} tokens; a mean document has {} to {} (a sample's)",
                     plan.batch.packed_document, parts, plan.batch.sequence)});
  if (plan.batch.packed_document != 0 && plan.stack.attention == AttentionBackend::unfused)
    problems.push_back({"packed_document",
                        "packed_document needs fused attention; write attention flash or cudnn"});
  if (a.position == model::Position::learned && plan.batch.sequence > a.max_positions)
    problems.push_back(
        {"sequence", fmt::format("sequence {} is longer than the model's table of {} learned "
                                 "positions; write at most {}",
                                 plan.batch.sequence, a.max_positions, a.max_positions)});
  // [TransformerEngine attention.py: flash-attn 2.3 and cuDNN have windows]
  if (a.sliding_window > 0 && a.sliding_window < plan.batch.sequence) {
    if (plan.stack.attention == AttentionBackend::flash1 ||
        plan.stack.attention == AttentionBackend::triton)
      problems.push_back(
          {"attention", fmt::format("the model attends to windows of {} tokens, which {} cannot; "
                                    "write attention flash or cudnn",
                                    a.sliding_window, implementation(plan.stack.attention))});
  }
}

}  // namespace sim::program::rules
