// plan.h — what to train and how it is parallelised: every setting of a Megatron-LM launch script
// that changes what a rank issues.
//
// A plan says nothing about machines. `problems` lists every rule that a plan breaks (rules/). A
// plan without problems always has a program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"
#include "sim/cluster/collective/codec.h"
#include "sim/job/schedule/schedule.h"
#include "sim/model/architecture.h"
#include "sim/model/operation.h"
#include "sim/program/plan/cuda_graphs.h"

namespace sim::program {

enum class Recompute : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };
enum class AttentionBackend : std::uint8_t {
  flash,    // flash-attn 2: fp32 dQ accumulator, dK and dV expanded for grouped queries
  cudnn,    // cuDNN fused attention, which TransformerEngine prefers on sm90
  unfused,  // scores, softmax and dropout in memory
  flash1,   // flash-attn 1
  triton,   // flash-attn 1's algorithm as Triton kernels, used by MPT
};
// The name that a profile uses for the backend's kernels.
std::string_view implementation(AttentionBackend backend);

// The kernels that run between the matrix products of a layer. `eager` and `compiled` also use
// PyTorch's own cross entropy, unless CrossEntropy::one_kernel is set.
enum class LayerKernels : std::uint8_t {
  fused,     // TransformerEngine and Apex: norms, SwiGLU and rotary embedding in one kernel each
  eager,     // PyTorch's own, one for each operator
  compiled,  // fused as well, and attention reads views (torch.compile; modules around flash-attn)
};
// How the loss is computed from the logits.
enum class CrossEntropy : std::uint8_t {
  stepwise,    // operators on an fp32 copy
  native,      // the same steps in compiled kernels (--cross-entropy-loss-fusion)
  te,          // TransformerEngine's kernels: the gradient overwrites the logits
  one_kernel,  // one kernel on 16-bit logits, which are kept (flash-attn, Apex, Triton)
};
// The source code of the transformer layer. It decides when tensors are freed: Python frees a
// tensor that autograd does not save when its last local name goes out of scope.
enum class LayerCode : std::uint8_t {
  core,  // Megatron-LM core: locals of modules end with them; norms are part of products
  // Up to 23.06: a norm's output lives to the next norm, attention's to the layer's end.
  before_core,
  one_function,  // up to 2022: scores and softmax, too, live until attention returns
};
// The parts of a layer that selective recomputation runs again (--recompute-modules).
struct RecomputeModules {
  bool core_attention = true;
  bool mlp = false;
  // torchtitan's selective op: keeps the outputs of attention and of every second product.
  bool operators = false;
  // Layers with experts: the whole MLP half, the experts' activation, the shared expert; norms that
  // are not part of a product; latent attention's wide projections.
  bool moe = false, moe_activation = false, shared_experts = false, norms = false, latent = false;
};

// Megatron-LM's precision-aware optimizer: state in configurable widths, gradients read from the
// buffer. The CPU may hold and update a part of the state.
struct OptimizerOptions {
  bool precision_aware = false;
  int main_parameter_bytes = 4;  // 4 or 2 (fp16 with remainders)
  int exp_avg_bytes = 4;         // 4, 2 or 1
  int exp_avg_sq_bytes = 4;
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

// Low-rank adapters beside the products of every layer. Only the adapters are trained; all other
// parameters are frozen (NeMo and Megatron-Bridge: peft.lora, ParallelLinearAdapter).
struct LoraOptions {
  int rank = 0;  // 0: no adapters, everything is trained
  bool qkv = true, projection = true, fc1 = true, fc2 = true;
  // With sequence parallelism, the adapter of a row-parallel product exchanges columns for rows by
  // all-to-all (NeMo's a2a_experimental). Otherwise it gathers all columns of all rows.
  bool all_to_all = false;
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
  int forward_prefetch = 0;           // units gathered ahead; 0: as far as the CPU runs ahead
  int backward_prefetch = 1;
  int replicas = 1;  // copies of the parameters: dp / replicas x cp ranks share one (hybrid)
  // ZeRO++'s hpZ (arXiv:2306.10209): groups of `secondary` neighbours keep a second 16-bit copy
  // after a forward pass. The backward pass gathers that copy; 1: no second copy.
  int secondary = 1;
  bool quantized_weights = false;    // qwZ: a forward pass gathers 1 byte per element
  bool quantized_gradients = false;  // qgZ: two exchanges in 4 bits instead of a reduce-scatter
};

// A ring has one rank class for each step, so the size of its programs grows with the square.
inline constexpr int max_context_parallel = 256;

// How tokens travel to their experts and back (Megatron-LM core 0.14, moe/token_dispatcher.py).
enum class Dispatcher : std::uint8_t {
  alltoall,      // each copy of a token goes to the rank of its expert
  allgather,     // every token goes to every rank
  alltoall_seq,  // core 0.8's alltoall: hidden columns, not tokens, are split over tensor ranks
  flex,          // DeepEP: one copy to each rank; for ranks in other nodes, one to each node
};
// How many tokens each expert gets.
enum class Routing : std::uint8_t {
  balanced,  // the same number
  random,    // drawn evenly, anew for each layer and microbatch
  skewed,    // drawn by Zipf's law, with popular experts drawn for each layer; or by given shares
};

// How layers with experts run.
struct ExpertsPlan {
  Dispatcher dispatcher = Dispatcher::alltoall;
  Routing routing = Routing::balanced;
  double skew = 1.0;  // exponent of Zipf's law
  // A file with the experts' shares of the tokens replaces `skew`. `shares`: its rows, one for all
  // layers with experts or one for each.
  std::string load;
  std::vector<std::vector<double>> shares;
  std::int64_t seed = 1;  // seed of the routes that are drawn
  // Tokens that an expert takes, relative to an even share; 0: all (dropless).
  double capacity_factor = 0;
  bool pads_to_capacity = false;
  bool grouped_gemm = true;  // products of all experts of a rank in one call
  // The product comes from the package grouped_gemm (--moe-use-legacy-grouped-gemm), not from
  // TransformerEngine's GroupedLinear. Its weight gradients are separate tensors that autograd
  // accumulates.
  bool legacy_grouped_gemm = false;
  bool permute_fusion = true;  // TransformerEngine's kernels
  bool fp32_router = false;    // --moe-router-dtype fp32
  // Cores before 0.13 multiply outputs by the probabilities when they sum them.
  bool late_probabilities = false;
  bool shared_overlap = false;       // the shared expert runs on a stream of its own
  bool overlaps_all_to_all = false;  // all-to-alls run beside another microbatch's work
};

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

// How a layer holds its saved tensors until its backward pass.
enum class LayerChoice : std::uint8_t {
  keep,  // they stay on the GPU
  // They wait on the CPU. The copy down may last until the next swapping layer's forward pass ends.
  // The copy back starts when the swapping layer that follows is back.
  swap,
  recompute,  // only its input stays; the layer runs again
};

// Modules of a layer whose saved tensors may wait on the CPU, in the order in which a layer
// finishes them (module_offload.h).
enum class OffloadModule : std::uint8_t {
  qkv_linear,
  core_attn,
  attn_proj,
  attn_norm,  // a norm that is no part of a product
  expert_fc1,
  moe_act,
  mlp_norm,  // a norm before experts
};
inline constexpr int offload_module_count = 7;
constexpr std::uint8_t bit_of(OffloadModule module) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(module));
}

// The tensors that a layer keeps for its backward pass, recomputes, or offloads to the CPU.
struct LayerPolicy {
  Recompute recompute = Recompute::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  RecomputeModules recompute_modules;
  int recompute_layers = 1;  // uniform: layers per chunk; block: layers recomputed per stage
  // --cpu-offloading-num-layers: the saved tensors of the first layers wait on the CPU.
  int offload_layers = 0;
  // Modules whose saved tensors wait on the CPU, one bit each; smaller tensors stay.
  std::uint8_t offload_modules = 0;
  std::int64_t offload_min_elements = 1048576;
  // The share of a pass's groups that are offloaded; the last ones stay. Each stage keeps
  // `offload_delta_bytes` more on the GPU than the stage before it (module_offload.h).
  double activation_offload_fraction = 1;
  std::int64_t offload_delta_bytes = 0;
  // The choice of each layer of a chunk; empty: the fields above decide. With `plans_choices`,
  // answer/layer_choices.h chooses from the costs of the plan's blocks; until then all layers keep.
  std::vector<LayerChoice> choices;
  bool plans_choices = false;

  bool chooses(LayerChoice choice) const {
    return std::ranges::find(choices, choice) != choices.end();
  }
  bool runs_layers_again() const {
    return recompute == Recompute::full || chooses(LayerChoice::recompute);
  }
  bool offloads() const { return offload_layers > 0 || chooses(LayerChoice::swap); }
  bool offloads(OffloadModule module) const { return (offload_modules & bit_of(module)) != 0; }
  bool swaps(int layer) const {
    if (choices.empty()) return layer < offload_layers;
    const auto at = static_cast<std::size_t>(layer);
    return at < choices.size() && choices[at] == LayerChoice::swap;
  }
};

// The operands of products that quantisation-aware training rounds to a grid (fake_quantize.h).
enum class FakeQuantization : std::uint8_t { none, weights, operands };

// The scale of a tensor that is cast to fp8 (fp8.h). `delayed`: from maxima of earlier steps
// (TransformerEngine). `tensorwise`: from the tensor itself, before the cast (torchao,
// TransformerEngine's current scaling). `mxfp8`: of each 32 elements, found by the cast itself.
// `nvfp4`: 4-bit products with a scale of each 16 elements and one of the tensor, which is read
// once more for it. Tensors of both are taken as one byte an element.
enum class Fp8Recipe : std::uint8_t { delayed, tensorwise, mxfp8, nvfp4 };

struct NumericsPlan {
  model::Precision precision = model::Precision::bf16;
  bool tf32 = false;  // products of fp32 tensors in tf32 (NVIDIA_TF32_OVERRIDE, allow_tf32)
  bool fp8 = false;   // products of the layers in fp8
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  bool fp8_parameters = false;  // the layers' matrices are held in fp8 alone (--fp8-param-gather)
  bool fp32_gradients = true;   // --accumulate-allreduce-grads-in-fp32
  FakeQuantization fake_quantization = FakeQuantization::none;
  // Zeroes gradients outside the grid; keeps unrounded tensors (ModelOpt: pass_through_bwd false).
  bool fake_quantization_clips = false;
};

// The framework's implementation choices: kernels, loss, data loader, logs.
struct StackPlan {
  AttentionBackend attention = AttentionBackend::flash;
  LayerKernels layer_kernels = LayerKernels::fused;
  bool swiglu_fusion = true;
  bool rope_fusion = true;
  // Megatron-LM up to core 0.13 transposes queries and keys of the fused rotary embedding for the
  // attention core. The core then reads and writes batch-first, whatever layout its kernels prefer.
  bool batch_first_core = true;
  // An RMSNorm is one kernel even in eager mode (PyTorch since pull request 153666 of 2025).
  bool norm_fusion = false;
  bool gradient_accumulation_fusion = true;
  LayerCode layer_code = LayerCode::core;
  CrossEntropy cross_entropy = CrossEntropy::stepwise;
  // torch.utils.checkpoint's early_stop (non-reentrant, since PyTorch 2.1): recomputation omits a
  // layer's last product and the operators after it. A compiler drops the same dead code.
  bool checkpoint_early_stop = false;
  bool fused_optimizer = true;  // one kernel for all tensors; else PyTorch's operators, each tensor
  // Query, key and value are separate products, and so are the two halves of a gated MLP.
  bool separate_products = false;
  // torch.use_deterministic_algorithms: PyTorch fills every new tensor by an extra kernel
  // (torch.utils.deterministic.fill_uninitialized_memory, on by default).
  bool deterministic = false;
  bool gradient_clipping = true;
  bool check_for_nan = true;  // per-bucket norm and host sync
  // TransformerEngine overlaps sequence-parallel communication with products (--tp-comm-overlap).
  bool tp_comm_overlap = false;
  // Without sequence parallelism, the all-reduce of a column-parallel product's input gradient
  // overlaps its weight gradient. --no-async-tensor-model-parallel-allreduce runs it afterwards.
  bool overlap_tensor_reduce = true;
  // Weights sharded over several ranks (tensor_depth). A forward pass gathers the next product's
  // weight during the current product (--overlap-axonn-all-gather). Gradients are reduce-scattered
  // beside the rest of the backward pass (--overlap-axonn-reduce-scatter).
  bool overlap_depth_gather = true, overlap_depth_scatter = true;
  // The backward pass reuses the weight that the forward pass gathered (AxoNN up to June 2024).
  bool saved_depth_weights = false;
  // One all-reduce sums parallel attention and MLP branches (GPT-NeoX's gpt_j_residual).
  bool joined_halves = false;
  // Keys and values of grouped-query attention are copied for every query head before a fused core.
  bool repeat_kv = false;
  // TransformerEngine 2 keeps one uninitialised gradient for each shape, to hand to autograd.
  bool kept_gradient_handles = false;
  CudaGraphs cuda_graphs;
  bool attention_mask = true;  // dataloader mask b x 1 x s x s (--no-create-... turns it off)
  // --reset-attention-mask: each sample has its own mask, built by the loader's `data_workers`.
  bool reset_attention_mask = false;
  int data_workers = 2;
  int logit_metrics = 0;  // extra cross entropies of the logits after each microbatch, for logging
  bool logs_optimizer_state = false;  // the paper authors' fork reads every shard back each step
};

// The codecs of compressed messages, by sender: names of calibration/codecs; "": uncompressed.
// `parameters` (gathered by data-parallel ranks) defaults to `data`.
struct CodecsPlan {
  std::string tensor, data, parameters, pipeline;
  collective::Codecs found;  // the codecs with these names
};

// Environment variables of the process.
struct EnvironmentPlan {
  std::string allocator_options;      // PYTORCH_CUDA_ALLOC_CONF
  bool avoid_record_streams = false;  // TORCH_NCCL_AVOID_RECORD_STREAMS=1
  bool launch_blocking = false;       // CUDA_LAUNCH_BLOCKING=1: the CPU waits for every kernel
};

struct Plan {
  model::Architecture architecture;
  MeshPlan mesh;
  BatchPlan batch;
  PipelinePlan pipeline;
  ShardingPlan sharding;
  LayerPolicy policy;
  ExpertsPlan experts;
  LoraOptions lora;
  OptimizerOptions optimizer;
  NumericsPlan numerics;
  StackPlan stack;
  CodecsPlan codec;
  EnvironmentPlan environment;

  bool is_eager() const { return stack.layer_kernels == LayerKernels::eager; }
  std::int64_t documents_per_sample() const {
    return batch.packed_document > 0 ? batch.sequence / batch.packed_document : 1;
  }
  // Each sample has its own mask, built by the data loader.
  bool makes_masks() const { return stack.attention_mask && stack.reset_attention_mask; }
  // Gradient norms travel from stage to stage, and the global norm comes back in the next step.
  bool validates_steps() const { return optimizer.post_validation && stack.gradient_clipping; }
  bool trains_adapters() const { return lora.rank > 0; }
  bool shards_parameters() const { return sharding.data_parallel != DataParallelism::ddp; }
  // Number of copies of the sharded parameters, or of the sharded optimizer state.
  int replicas() const {
    return mesh.tensor_depth > 1            ? mesh.dp * mesh.cp / mesh.tensor_depth
           : shards_parameters()            ? sharding.fsdp.replicas
           : sharding.distributed_optimizer ? sharding.optimizer_replicas
                                            : 1;
  }
  // Kernels of weight gradients add directly into Megatron-LM's gradient buffer.
  bool accumulates_in_product() const {
    return stack.gradient_accumulation_fusion && !shards_parameters();
  }
  // Matrices held in fp8 keep a permanent transposed copy. Frozen matrices, and matrices gathered
  // in fp8, are transposed for each product.
  bool keeps_transposed_weights() const {
    return numerics.fp8_parameters && !trains_adapters() && !shards_parameters();
  }
  // The precision of products that never run in fp8 (wide), and of those that may.
  model::Precision wide_precision() const {
    return numerics.tf32 ? model::Precision::tf32 : numerics.precision;
  }
  model::Precision product_precision() const {
    if (!numerics.fp8) return wide_precision();
    return numerics.fp8_recipe == Fp8Recipe::nvfp4 ? model::Precision::fp4 : model::Precision::fp8;
  }
  // Layers of a model chunk. REQUIRES: the plan has no problems.
  int chunk_layers(int stage, int chunk) const;
  // Ranks that share each product of an expert; 1 without experts.
  int expert_tp() const {
    return !architecture.is_mixture() ? 1 : mesh.etp > 0 ? mesh.etp : mesh.tp;
  }
  // Ranks that hold the same experts.
  int expert_replicas() const { return mesh.tp * mesh.cp * mesh.dp / (expert_tp() * mesh.ep); }
  bool draws_routes() const {
    return architecture.is_mixture() && experts.routing != Routing::balanced;
  }
  // Every stage holds a share of the vocabulary: the schedule has output passes.
  bool cuts_vocabulary() const;
  // Tensor-parallel ranks over which heads and the rows of column-parallel weights are split.
  int tensor_rows() const { return mesh.tp / mesh.tensor_columns; }
  int world() const { return mesh.tp * mesh.cp * mesh.pp * mesh.dp; }
  // Microbatches per pipeline and step, of the replica with the most. REQUIRES: the plan has no
  // problems.
  int microbatches() const;
  // Microbatches of the first step. It is a shortened warm-up: it creates the optimizer's state and
  // fills the pipeline to its maximum. It has all microbatches if stages keep tensors of every
  // microbatch. All later steps are complete.
  int warm_up_microbatches() const;
  // Passes of each direction that a rank runs for one microbatch: its chunks times the slices.
  int tasks_per_microbatch() const;
  std::int64_t local_sequence() const { return batch.sequence / mesh.cp; }
  bool uses_sequence_parallel() const { return mesh.sequence_parallel && mesh.tp > 1; }
};

// The plan as its schedule sees it, for a step of `microbatches` microbatches.
schedule::Shape pipeline_shape(const Plan& plan, int microbatches);

// Every rule that the plan breaks, with the values that would satisfy it. `where` is the setting at
// fault: "tp", "fsdp", "model". Empty: the plan is valid (valid_plan.h).
Diagnostics problems(const Plan& plan);

// "tp2 cp1 pp2 dp8 mbs1 gbs1024 seq8192": for tables and point names.
std::string short_name(const Plan& plan);

}  // namespace sim::program
