// parallel_plan.h — how a job is divided over ranks: mesh, batch, pipeline, shards and optimizer.
//
// Part of a Plan (plan.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::program {

// A ring has one rank class for each step, so the size of its programs grows with the square.
inline constexpr int max_context_parallel = 256;

// How the ranks are split. World size = tp x cp x pp x dp. Experts split the same ranks as etp x ep
// x expert-dp x pp (job/mesh/axes.h).
struct MeshPlan {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  int ep = 1;
  int etp = 0;                    // 0: tp
  bool sequence_parallel = true;  // Megatron-LM turns it off at tp = 1
  // AxoNN: this many of the tp ranks split the columns of a weight; tp / tensor_columns split its
  // rows. 1: rows only, as Megatron-LM cuts a column-parallel weight.
  int tensor_columns = 1;
  // AxoNN's third dimension: this many neighbouring dp ranks share the weights of the layers and
  // gather them around each product. AxoNN cuts the batch over the same dimension.
  int tensor_depth = 1;
  std::string rank_order;        // "tp-cp-ep-dp-pp", fastest first; "": that order
  std::string context = "ring";  // how cp ranks share a sequence: a name of context::catalog()
  // For two-level contexts: neighbours that exchange sequence for heads. 0: as many ranks as share
  // the key-value heads evenly (context_plan.h).
  int ulysses = 0;
};

// The samples of a step.
struct BatchPlan {
  int micro_batch = 1;   // sequences per microbatch
  int global_batch = 1;  // sequences per step
  // Microbatches of each data-parallel replica in a step (replicas.h); empty: as even as possible.
  // With `balances_microbatches`, answer/microbatch_balance.h chooses them from their times.
  std::vector<int> replica_microbatches;
  bool balances_microbatches = false;
  std::int64_t sequence = 0;
  // Mean tokens of a document in samples that pack several documents (cu_seqlens; qkv_format thd).
  // Attention stays inside each document; 0: a sample is one document.
  std::int64_t packed_document = 0;
};

// How layers are distributed over the parts of the model (layer_partition.h). `balanced`: chosen by
// answer/balance.h from the times of blocks; until then `padded`.
enum class LayerSplit : std::uint8_t { even, padded, weighted, balanced };

// The stages of torch.distributed.pipelining that keep all their outputs until the next step.
enum class KeptOutputs : std::uint8_t {
  no_stage,     // since pull request 165822 of 2025-10, if requested
  last_stage,   // since pull request 153383 of 2025-05
  every_stage,  // earlier versions
};

// In which order stages work on microbatches, and which layers they hold.
struct PipelinePlan {
  std::string schedule = "1f1b";  // a name of schedule::catalog()
  int virtual_stages = 1;         // model chunks per pipeline rank (interleaving)
  // How interleaved schedules fill the pipeline: it differs between frameworks and their versions.
  schedule::Interleaving interleaving = schedule::Interleaving::all_forwards_first;
  int microbatch_group = 0;  // --microbatch-group-size-per-vp-stage, 0: the schedule's own
  // Uneven stages: Megatron-LM's --decoder-first-pipeline-num-layers and
  // --decoder-last-pipeline-num-layers (0: like the others). Or the embedding and the head count as
  // one layer each.
  int first_stage_layers = 0, last_stage_layers = 0;
  bool account_for_embedding = false, account_for_loss = false;
  LayerSplit layer_split = LayerSplit::even;
  int embedding_layers = 1, head_layers = 1;  // weighted: the layers that they count as
  std::vector<int> layers_of_parts;           // each part's own number; empty: by the rule
  // Schedules that cut sequences: the tokens of each slice; empty: even slices. With
  // `balances_slices`, answer/slices.h chooses the lengths from the times of the plan's blocks.
  std::vector<std::int64_t> slice_lengths;
  bool balances_slices = false;
  // For sharded parameters: tensors that torch.distributed.pipelining keeps after their microbatch
  // is done. `kept_input_gradients`: the gradients of stage inputs also live until the next step
  // (before pull request 164329 of 2025-10).
  KeptOutputs kept_outputs = KeptOutputs::no_stage;
  bool kept_input_gradients = false;
  schedule::Times pass_times;  // pass times that a searched order assumes; only ratios count
};

// The state that a data-parallel rank holds: a full copy, or a shard.
enum class DataParallelism : std::uint8_t {
  ddp,    // Megatron-LM: full parameters and gradients; ZeRO-1 with the distributed optimizer
  fsdp1,  // PyTorch's FullyShardedDataParallel: flat parameters
  fsdp2,  // PyTorch's fully_shard: each parameter sharded separately
};

// Sharding of parameters, gradients and optimizer state (ZeRO-2, ZeRO-3, hybrid).
struct FsdpOptions {
  bool reshard_after_forward = true;  // false: stay gathered until their backward pass (ZeRO-2)
  bool limit_all_gathers = true;      // fsdp1: the CPU waits before a third gather is in flight
  bool no_sync = false;               // only the last microbatch reduces gradients
  bool fp32_parameters = false;       // gathered in fp32, cast by autocast
  // Parameters, their gradients and moments are held in the plan's precision, without fp32 copies
  // (model.to(bfloat16); Lightning's bf16-true).
  bool low_precision_parameters = false;
  bool hybrid = false;  // a copy on each node; the loader turns it into `replicas`
  // Shards are in the plan's precision, with fp32 main parameters beside them (Megatron-FSDP).
  bool main_parameters = false;
  // fsdp1: trained adapters are units of their own, so frozen weights stay in 16 bits and have no
  // gradient (peft's wrap policy). Otherwise a flat parameter of both has one type and a gradient.
  bool separate_adapters = false;
  int forward_prefetch = 0;  // units gathered ahead; 0: as far as the CPU runs ahead
  int backward_prefetch = 1;
  int replicas = 1;  // copies of the parameters: dp / replicas x cp ranks share one (hybrid)
  // ZeRO++'s hpZ (arXiv:2306.10209): groups of `secondary` neighbours keep a second 16-bit copy
  // after a forward pass. The backward pass gathers that copy; 1: no second copy.
  int secondary = 1;
  bool quantized_weights = false;    // qwZ: a forward pass gathers 1 byte per element
  bool quantized_gradients = false;  // qgZ: two exchanges in 4 bits instead of a reduce-scatter
};

// How the ranks of a data-parallel group share state, and which communication overlaps computation.
struct ShardingPlan {
  DataParallelism data_parallel = DataParallelism::ddp;
  FsdpOptions fsdp;
  bool distributed_optimizer = true;
  // Copies of the optimizer's state: dp x cp / optimizer_replicas ranks share one.
  int optimizer_replicas = 1;
  // Each rank keeps the optimizer state of whole parameters, not of slices of buckets (InternEvo).
  // All ranks sum the gradients, and each rank sends its updated parameters to the others.
  bool whole_parameters = false;
  // DeepSpeed's distributed optimizer (deepspeed_zero1.h): gradients are separate tensors, reduced
  // at the end of a step. With sharded parameters: its ZeRO-3 (deepspeed_zero3.h).
  bool deepspeed_optimizer = false;
  // Every rank receives the sum of the whole bucket, not only its own part (DeepSpeed since 0.12.4:
  // use_multi_rank_bucket_allreduce). With sharded parameters: ZeRO-3 with reduce_scatter false
  // [DeepSpeed runtime/zero/stage3.py:__avg_scatter_contiguous_grads].
  bool deepspeed_all_reduce = false;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
};

// Megatron-LM's precision-aware optimizer: state in configurable widths, gradients read from the
// buffer. The CPU may hold and update a part of the state.
struct OptimizerOptions {
  bool precision_aware = false;
  int main_parameter_bytes = 4;  // 4 or 2 (fp16 with remainders)
  int exp_avg_bytes = 4;         // 4, 2 or 1
  int exp_avg_sq_bytes = 4;
  // Adam computes on fp32 copies of all narrow moments (TransformerEngine before 2.13). Since 2.13
  // its kernel casts moments in bf16; fp8 moments are always copied.
  bool separate_casts = false;
  double offload_fraction = 0;  // share of the elements, in whole parameters
  // One CPU optimizer for each tensor (--overlap-cpu-optimizer-d2h-h2d): the next gradient comes
  // down and the previous parameter goes up during an update.
  bool overlap_offload = false;
  // DeepSpeed's ZeRO-3 (deepspeed_zero3.h): elements of a rank in each sub-group. The GPU updates
  // every `gpu_stride`-th sub-group of the CPU (Deep Optimizer States; 0: none). Gradients are
  // copied to the CPU in fp32 beside the backward pass, or by a blocking copy.
  std::int64_t sub_group = 1'000'000'000;
  int gpu_stride = 0;
  bool async_gradient_copy = false;
  // Post-validation (--enable-optimizer-post-validation, arXiv:2401.10241 section 4). Each stage
  // steps with the gradient norm of the stages up to its own. The global norm arrives in the next
  // step's warm-up; a stage rolls back if the norm changes the step.
  bool post_validation = false;
};

}  // namespace sim::program
