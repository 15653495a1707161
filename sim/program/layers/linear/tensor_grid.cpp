#include "sim/program/layers/linear/tensor_grid.h"

#include <fmt/format.h>

#include "sim/program/plan/layer_partition.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

void sum_over_columns(Writer& w, Value v, std::int64_t bytes, std::uint16_t summed) {
  if (w.plan.mesh.tensor_columns == 1) return;
  w.e.collective(Kind::all_reduce, Stream::tensor_columns, bytes, "all-reduce",
                 summed != 0 ? overlapped : joins, summed);
  if (w.records()) w.record_stream(v, Stream::tensor_columns);
}

// A list of tensors that is concatenated [axonn intra_layer/communication.py:Gather].
Value gather_columns(Writer& w, std::string_view label) {
  const std::int64_t bytes = w.rank.dim.full();
  const Value parts = w.temporary(bytes, "gathered columns");
  w.e.collective(Kind::all_gather, Stream::tensor_columns, bytes, "all-gather");
  const Value made = w.temporary(bytes, label);
  w.memory_bound(OperationKind::copy, "join columns", 2 * bytes);
  w.drop(parts);
  return made;
}

namespace {

// Features that AxoNN's grid does not support [axonn-ai/Megatron-AxoNN].
void must_be_plain(const Plan& plan, const char* setting, std::vector<Problem>& problems) {
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

std::vector<Problem> tensor_grid_problems(const Plan& plan) {
  std::vector<Problem> problems;
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
  if (!problems.empty()) return problems;
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
  return problems;
}

}  // namespace sim::program
