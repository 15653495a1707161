// plan.cpp — the rules of a plan. Most are Megatron-LM's (core 0.8-0.9: training/arguments.py,
// core/transformer/transformer_config.py, core/tensor_parallel/utils.py,
// core/transformer/transformer_block.py). Those of context parallelism are TransformerEngine's.
// Each message names valid values.
#include "sim/program/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "sim/base/text.h"
#include "sim/job/schedule/placement.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/layers/linear/fake_quantize.h"
#include "sim/program/layers/linear/tensor_grid.h"
#include "sim/program/parallel/deepspeed/deepspeed_zero1.h"
#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/replicas.h"
#include "sim/program/plan/rules/experts.h"
#include "sim/program/plan/schedule_rules.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::program {

namespace {

constexpr int max_prefetch = 6;  // each gather in flight has an event of its own
constexpr std::int64_t max_ranks = 1 << 20;
constexpr std::int64_t max_batch = 1 << 24;
constexpr std::int64_t max_sequence = 1 << 26;
constexpr double max_tensor_bytes = 1099511627776.0 * 16;  // 16 TiB: far beyond any GPU

using Problems = Diagnostics;

// The name of `what` in a message.
void must_be_within(const char* field, const char* what, std::int64_t value, std::int64_t most,
                    Problems& problems) {
  if (value < 1 || value > most)
    problems.push_back({field, fmt::format("{} is {}; it must be 1 to {}", what, value, most)});
}

// The basic ranges. Nothing is divided or multiplied before they hold.
Problems ranges(const Plan& plan) {
  Problems problems;
  const model::Architecture& a = plan.architecture;
  must_be_within("tp", "tp", plan.mesh.tp, max_ranks, problems);
  must_be_within("cp", "cp", plan.mesh.cp, max_context_parallel, problems);
  must_be_within("pp", "pp", plan.mesh.pp, max_ranks, problems);
  must_be_within("dp", "dp", plan.mesh.dp, max_ranks, problems);
  must_be_within("fsdp", "fsdp.replicas", plan.sharding.fsdp.replicas, max_ranks, problems);
  must_be_within("virtual_stages", "virtual_stages", plan.pipeline.virtual_stages, 1 << 16,
                 problems);
  must_be_within("micro_batch", "micro_batch", plan.batch.micro_batch, max_batch, problems);
  must_be_within("global_batch", "global_batch", plan.batch.global_batch, max_batch, problems);
  must_be_within("sequence", "sequence", plan.batch.sequence, max_sequence, problems);
  must_be_within("model", "the model's number of layers", a.layers, 1 << 16, problems);
  must_be_within("model", "the model's hidden size", a.hidden, 1 << 20, problems);
  must_be_within("model", "the model's MLP width", a.ffn, 1 << 24, problems);
  must_be_within("model", "the model's number of heads", a.heads, 1 << 16, problems);
  must_be_within("model", "the model's number of key-value heads", a.kv_heads, 1 << 16, problems);
  must_be_within("model", "the model's head size", a.head_dim, 1 << 16, problems);
  must_be_within("model", "the model's vocabulary", a.vocab, 1 << 28, problems);
  if (!problems.empty()) return problems;
  const __int128 world =
      static_cast<__int128>(plan.mesh.tp) * plan.mesh.cp * plan.mesh.pp * plan.mesh.dp;
  if (world > max_ranks)
    problems.push_back(
        {"tp", fmt::format("tp x cp x pp x dp is more than {} ranks, the most that is "
                           "simulated",
                           max_ranks)});
  return problems;
}

void tensor_parallel(const Plan& plan, Problems& problems) {
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

void sequence_split(const Plan& plan, Problems& problems) {
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

// Whether the schedule is known and runs weight gradients in passes of their own.
bool splits_backward(const Plan& plan) {
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  return schedule && schedule->splits != schedule::Splits::none;
}

// Whether groups of recomputed layers divide a chunk.
bool recompute_chunk(const Plan& plan, int chunk, Problems& problems) {
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

// REQUIRES: the layers can be split.
void recompute(const Plan& plan, Problems& problems) {
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
void choices(const Plan& plan, Problems& problems) {
  const LayerPolicy& policy = plan.policy;
  if (policy.choices.empty() && !policy.plans_choices) return;
  const auto problem = [&](std::string rule) {
    problems.push_back({"layer_choices", std::move(rule)});
  };
  if (policy.recompute == Recompute::full || policy.offload_layers > 0)
    problem(
        "layer_choices say what runs again and what is offloaded; leave recompute full and "
        "offload_layers out");
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
void offload(const Plan& plan, Problems& problems) {
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

void zero_plus_plus(const Plan& plan, Problems& problems) {
  const FsdpOptions& fsdp = plan.sharding.fsdp;
  const std::int64_t shards = std::int64_t{plan.mesh.dp} * plan.mesh.cp / fsdp.replicas;
  if (fsdp.secondary < 1 || shards % fsdp.secondary != 0)
    problems.push_back(
        {"fsdp", fmt::format("fsdp.secondary {} does not divide the {} ranks that share one copy "
                             "of the parameters; it may be {}",
                             fsdp.secondary, shards, divisors(shards))});
  if (fsdp.quantized_gradients && (fsdp.secondary == 1 || fsdp.replicas > 1))
    problems.push_back({"fsdp",
                        "fsdp.quantized_gradients exchanges among the neighbours of "
                        "fsdp.secondary first, of one copy; write the GPUs of a node there, and "
                        "fsdp.replicas 1"});
  if (fsdp.quantized_weights && plan.numerics.fp8_parameters)
    problems.push_back({"fsdp",
                        "fsdp.quantized_weights quantises weights of 16 bits; leave "
                        "fp8_parameters out"});
}

void fully_sharded(const Plan& plan, Problems& problems) {
  // torch.distributed.pipelining splits only the backward pass of FSDP2's modules [stage.py:
  // backward_maybe_with_nosync]. The views of FSDP1's flat parameter share one gradient.
  if (plan.sharding.data_parallel == DataParallelism::fsdp1 && splits_backward(plan))
    problems.push_back(
        {"schedule",
         fmt::format("schedule {} splits the backward pass, which fsdp1's flat parameters cannot; "
                     "write data_parallel fsdp2",
                     plan.pipeline.schedule)});
  if (plan.mesh.dp % plan.sharding.fsdp.replicas != 0)
    problems.push_back(
        {"fsdp", fmt::format("fsdp.replicas {} does not divide dp {}; it may be {}",
                             plan.sharding.fsdp.replicas, plan.mesh.dp, divisors(plan.mesh.dp))});
  zero_plus_plus(plan, problems);
  for (const auto& [name, depth] : {std::pair{"forward", plan.sharding.fsdp.forward_prefetch},
                                    std::pair{"backward", plan.sharding.fsdp.backward_prefetch}})
    if (depth < 0 || depth > max_prefetch)
      problems.push_back({"fsdp", fmt::format("fsdp.{}_prefetch is {}; it must be 0 to {}", name,
                                              depth, max_prefetch)});
}

void joined_halves(const Plan& plan, Problems& problems) {
  if (plan.stack.joined_halves && plan.uses_sequence_parallel())
    problems.push_back({"joined_halves",
                        "joined_halves is simulated with whole sequences; turn sequence_parallel "
                        "off"});
}

void data_parallel(const Plan& plan, Problems& problems) {
  if (plan.shards_parameters()) return fully_sharded(plan, problems);
  const ShardingPlan& s = plan.sharding;
  const int ranks = plan.mesh.dp * plan.mesh.cp;
  if (s.optimizer_replicas < 1 || ranks % s.optimizer_replicas != 0)
    problems.push_back({"optimizer_replicas",
                        fmt::format("optimizer_replicas {} does not divide dp x cp = {}; it may be "
                                    "{}",
                                    s.optimizer_replicas, ranks, divisors(ranks))});
  if ((s.optimizer_replicas > 1 || s.whole_parameters) && !s.distributed_optimizer)
    problems.push_back({s.whole_parameters ? "whole_parameters" : "optimizer_replicas",
                        "optimizer_replicas and whole_parameters say how the optimizer's state is "
                        "shared; turn distributed_optimizer on"});
  if (s.optimizer_replicas > 1 && plan.architecture.is_mixture())
    problems.push_back({"optimizer_replicas",
                        "experts have one copy of the optimizer's state; write "
                        "optimizer_replicas 1"});
  if (s.whole_parameters && s.overlap_param_gather)
    problems.push_back({"whole_parameters",
                        "whole parameters are sent at the end of a step; turn "
                        "overlap_param_gather off"});
  for (Diagnostic& p : deepspeed_problems(plan)) problems.push_back(std::move(p));
  if (plan.sharding.overlap_param_gather && !plan.sharding.distributed_optimizer)
    problems.push_back({"overlap_param_gather",
                        "overlap_param_gather needs distributed_optimizer (without it no "
                        "parameters are gathered); "
                        "turn it off"});
  if (plan.sharding.overlap_param_gather && plan.sharding.distributed_optimizer &&
      !plan.sharding.overlap_grad_reduce)
    problems.push_back(
        {"overlap_param_gather",
         "overlap_param_gather needs overlap_grad_reduce; turn both on or both off"});
}

void optimizer(const Plan& plan, Problems& problems) {
  if (plan.optimizer.post_validation && !splits_backward(plan))
    problems.push_back({"post_validation",
                        fmt::format("post_validation is zero-bubble's: schedule {} does not split "
                                    "its backward passes; write schedule zb-2p, or leave it out",
                                    plan.pipeline.schedule)});
  if (plan.optimizer.post_validation && plan.shards_parameters())
    problems.push_back({"post_validation",
                        "post_validation takes back a step of Megatron-LM's optimizer, which fsdp "
                        "does not have; write data_parallel ddp, or leave it out"});
  const OptimizerOptions& o = plan.optimizer;
  const bool narrow =
      o.main_parameter_bytes != 4 || o.exp_avg_bytes != 4 || o.exp_avg_sq_bytes != 4;
  for (Diagnostic& p : deepspeed_zero3_problems(plan)) problems.push_back(std::move(p));
  const bool offloads =
      o.offload_fraction > 0 && !plan.sharding.deepspeed_optimizer && !plan.shards_parameters();
  if ((narrow || offloads) && !o.precision_aware)
    problems.push_back(
        {offloads ? "optimizer_cpu_offload" : "precision_aware_optimizer",
         "optimizer state in less than fp32, or on the CPU, needs precision_aware_optimizer; write "
         "precision_aware_optimizer: true"});
  if (o.precision_aware && (!plan.sharding.distributed_optimizer || plan.shards_parameters()))
    problems.push_back({"precision_aware_optimizer",
                        "precision_aware_optimizer needs distributed_optimizer; turn it on"});
  if (o.offload_fraction < 0 || o.offload_fraction > 1)
    problems.push_back(
        {"optimizer_offload_fraction",
         fmt::format("optimizer_offload_fraction is {}; it must be 0 to 1", o.offload_fraction)});
}

void precision(const Plan& plan, Problems& problems) {
  if (plan.numerics.precision == model::Precision::fp8 ||
      plan.numerics.precision == model::Precision::tf32)
    problems.push_back(
        {"precision", "precision is one of bf16, fp16, fp32; others are not simulated"});
  // [flash_attn/flash_attn_interface.py and TransformerEngine's backends: fp16 and bf16 alone]
  if (plan.numerics.precision == model::Precision::fp32 &&
      plan.stack.attention != AttentionBackend::unfused)
    problems.push_back(
        {"attention", fmt::format("{} multiplies in 16 bits or less, not in fp32; write attention "
                                  "unfused, or precision bf16",
                                  implementation(plan.stack.attention))});
  if (plan.numerics.tf32 && plan.numerics.precision != model::Precision::fp32)
    problems.push_back({"tf32", "tf32 is of fp32 tensors; write precision fp32, or turn tf32 off"});
  if (plan.numerics.fp8_parameters && !plan.numerics.fp8)
    problems.push_back({"fp8_parameters", "fp8_parameters needs products in fp8; write fp8 true"});
  if (plan.numerics.fp8_recipe != Fp8Recipe::delayed && !plan.numerics.fp8)
    problems.push_back(
        {"fp8_recipe", "fp8_recipe is of products in fp8; write fp8 true too, or leave it out"});
  if (!plan.numerics.fp8) return;
  // Only a hook of FSDP2 marks parameters that are gathered in fp8 [torchao float8/fsdp_utils.py:
  // WeightWithDynamicFloat8CastTensor.fsdp_pre_all_gather].
  if (plan.numerics.fp8_parameters && plan.sharding.data_parallel == DataParallelism::fsdp1)
    problems.push_back(
        {"fp8_parameters",
         "fp8_parameters: fsdp1's flat parameters have one type; write data_parallel fsdp2"});
  if (plan.numerics.precision == model::Precision::fp32)
    problems.push_back({"fp8", "fp8 needs 16-bit parameters; write precision bf16"});
}

void adapters(const Plan& plan, Problems& problems) {
  if (plan.lora.rank == 0) return;
  if (plan.lora.rank < 0 || plan.lora.rank > 65536 || plan.lora.rank % plan.mesh.tp != 0)
    problems.push_back(
        {"lora_rank", fmt::format("lora_rank {} must be a multiple of tp {}, at most 65536",
                                  plan.lora.rank, plan.mesh.tp)});
  if (!plan.lora.qkv && !plan.lora.projection && !plan.lora.fc1 && !plan.lora.fc2)
    problems.push_back(
        {"lora_modules", "lora_modules names no module; without adapters leave lora_rank out"});
}

// Checks the largest single tensors and buffers, so that no later computation overflows.
void sizes(const Plan& plan, Problems& problems) {
  const model::Architecture& a = plan.architecture;
  const double tokens = static_cast<double>(plan.batch.micro_batch) *
                        static_cast<double>(plan.batch.sequence) /
                        static_cast<double>(plan.mesh.cp);
  const double width = static_cast<double>(std::max(
      {model::padded_vocab(a.vocab, plan.mesh.tp), 4 * a.ffn, 4 * a.hidden, 3 * a.query_width()}));
  const double keys = static_cast<double>(plan.batch.sequence);
  double largest = tokens * width * 4;
  if (plan.stack.attention == AttentionBackend::unfused)
    largest = std::max(largest, tokens * keys * static_cast<double>(a.heads) * 4);
  if (plan.stack.attention_mask) largest = std::max(largest, tokens * keys);
  if (largest > max_tensor_bytes)
    problems.push_back(
        {"micro_batch", fmt::format("a single tensor of a microbatch would have {:.3g} TiB; make "
                                    "micro_batch or sequence smaller",
                                    largest / 1099511627776.0)});
  const double parameters = static_cast<double>(model::parameters(a)) /
                            (static_cast<double>(plan.mesh.tp) * plan.mesh.pp);
  if (4 * parameters > 32 * max_tensor_bytes)
    problems.push_back({"model", fmt::format("a rank would have {:.3g} parameters; a model with "
                                             "fewer, or more stages, can be simulated",
                                             parameters)});
}

}  // namespace

Diagnostics problems(const Plan& plan) {
  Problems problems = ranges(plan);
  if (!problems.empty()) return problems;
  for (Diagnostic& problem : expert_problems(plan)) problems.push_back(std::move(problem));
  for (Diagnostic& problem : tensor_grid_problems(plan)) problems.push_back(std::move(problem));
  if (!problems.empty()) return problems;
  tensor_parallel(plan, problems);
  joined_halves(plan, problems);
  sequence_split(plan, problems);
  for (Diagnostic& problem : context_problems(plan)) problems.push_back(std::move(problem));
  for (Diagnostic& problem : batch_problems(plan)) problems.push_back(std::move(problem));
  const std::size_t before = problems.size();
  for (Diagnostic& problem : part_problems(plan)) problems.push_back(std::move(problem));
  const bool splits = problems.size() == before;
  for (Diagnostic& problem : schedule_problems(plan)) problems.push_back(std::move(problem));
  if (splits) recompute(plan, problems);
  if (splits) offload(plan, problems);
  if (splits) choices(plan, problems);
  for (Diagnostic& problem : module_offload_problems(plan)) problems.push_back(std::move(problem));
  data_parallel(plan, problems);
  optimizer(plan, problems);
  precision(plan, problems);
  for (Diagnostic& problem : fake_quantization_problems(plan)) problems.push_back(std::move(problem));
  adapters(plan, problems);
  sizes(plan, problems);
  return problems;
}

Result<ValidPlan> validate(Plan plan) {
  if (Diagnostics found = problems(plan); !found.empty()) return found;
  return ValidPlan(std::move(plan));
}

ValidPlan valid(Plan plan) {
  const Result<ValidPlan> valid = validate(std::move(plan));
  assert(valid);
  return *valid;
}

schedule::Shape pipeline_shape(const Plan& plan, int microbatches) {
  return {.stages = plan.mesh.pp,
          .microbatches = microbatches,
          .chunks = plan.pipeline.virtual_stages,
          .slices = slice_count(plan),
          .group = std::min(plan.pipeline.microbatch_group, microbatches),
          .interleaving = plan.pipeline.interleaving,
          .times = plan.pipeline.pass_times};
}

int Plan::microbatches() const {
  if (!batch.replica_microbatches.empty()) return std::ranges::max(batch.replica_microbatches);
  const std::int64_t together = std::int64_t{mesh.dp} * batch.micro_batch;
  const int most = static_cast<int>(batch.global_batch / together);
  return batch.balances_microbatches && batch.global_batch % together != 0 ? most + 1 : most;
}

int Plan::chunk_layers(int stage, int chunk) const {
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  return part_layers(*this, part_of(row.placement, pipeline_shape(*this, 1), {stage, chunk}));
}

bool Plan::cuts_vocabulary() const {
  return sim::schedule::find(pipeline.schedule)->output != sim::schedule::Output::last_part;
}

int Plan::tasks_per_microbatch() const {
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  if (row.placement == sim::schedule::Placement::two_way) return 1;
  return pipeline.virtual_stages * slice_count(*this);
}

int Plan::warm_up_microbatches() const {
  // PyTorch's stages hold the tensors that they keep of each microbatch when the first step ends.
  const bool keep = pipeline.kept_outputs != KeptOutputs::no_stage || pipeline.kept_input_gradients;
  if (keep && shards_parameters() && mesh.pp > 1) return microbatches();
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  const int fills = pipeline.virtual_stages > 1 ? 2 * mesh.pp : row.fills * mesh.pp;
  const int m = std::min(microbatches(), std::max(fills, 2));
  return row.problem(pipeline_shape(*this, m)).empty() ? m : microbatches();
}

std::string short_name(const Plan& plan) {
  std::string text = fmt::format("tp{} cp{} pp{}", plan.mesh.tp, plan.mesh.cp, plan.mesh.pp);
  if (plan.pipeline.virtual_stages > 1) text += fmt::format(" vp{}", plan.pipeline.virtual_stages);
  return text + fmt::format(" dp{} mbs{} gbs{} seq{}", plan.mesh.dp, plan.batch.micro_batch,
                            plan.batch.global_batch, plan.batch.sequence);
}

}  // namespace sim::program
