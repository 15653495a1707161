// plan.h — what to train and how it is parallelised: everything a launch script of Megatron-LM
// decides and that changes what a rank issues.
//
// A plan says nothing about machines. `problems` lists every rule a plan breaks; a plan without
// problems always has a program.
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

namespace sim::program {

enum class Recompute : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };
enum class AttentionBackend : std::uint8_t {
  flash,    // flash-attn 2: fp32 dQ accumulator, dK and dV expanded for grouped queries
  cudnn,    // cuDNN fused attention, what TransformerEngine prefers on sm90
  unfused,  // scores, softmax and dropout in memory
  flash1,   // flash-attn 1
  triton,   // flash-attn 1's kernels in Triton, which MPT runs
};
// The name of its kernels in a profile.
std::string_view implementation(AttentionBackend backend);

// Whose kernels run between the products of a layer. Without `fused`, cross entropy is PyTorch's
// own too (unless CrossEntropy::one_kernel).
enum class LayerKernels : std::uint8_t {
  fused,     // TransformerEngine and Apex: norms, SwiGLU and rotary embedding in one kernel each
  eager,     // PyTorch's own, one an operator
  compiled,  // fused too, and attention reads views (torch.compile; modules around flash-attn)
};
// What makes losses of logits.
enum class CrossEntropy : std::uint8_t {
  stepwise,    // operators on an fp32 copy
  native,      // the same steps compiled (--cross-entropy-loss-fusion)
  te,          // TransformerEngine's kernels: the gradient takes the logits' place
  one_kernel,  // one on 16-bit logits, which are kept (flash-attn, Apex, Triton)
};
// Whose transformer layer it is, by what its functions still name while they run: Python frees a
// tensor that nobody saves when its last name goes.
enum class LayerCode : std::uint8_t {
  core,          // Megatron-LM core's: modules return, norms are part of products
  before_core,   // to 23.06: a norm's output until the next one's, attention's until the layer ends
  one_function,  // to 2022: the scores and their softmax too until attention returns
};
// What selective recomputation runs again (--recompute-modules).
struct RecomputeModules {
  bool core_attention = true;
  bool mlp = false;
  // torchtitan's selective op: attention and every second product are kept, the rest runs again.
  bool operators = false;
  // Of layers with experts: all of the experts' half, their activation, the shared expert, norms
  // that are no part of a product, the wide projections of latent attention.
  bool moe = false, moe_activation = false, shared_experts = false, norms = false, latent = false;
};

// Megatron-LM's precision-aware optimizer: state in the widths that are asked for, gradients read
// from the buffer as they are. A share of it may live on the CPU, which updates it there.
struct OptimizerOptions {
  bool precision_aware = false;
  int main_parameter_bytes = 4;  // 4 or 2 (fp16 with remainders)
  int exp_avg_bytes = 4;         // 4, 2 or 1
  int exp_avg_sq_bytes = 4;
  double offload_fraction = 0;  // of the elements, whole parameters
  // One CPU optimizer for each tensor: its gradient comes down while the tensor before is updated
  // and the one before that goes up (--overlap-cpu-optimizer-d2h-h2d).
  bool overlap_offload = false;
  // Of DeepSpeed's ZeRO-3 (deepspeed_zero3.h): the state in sub-groups of so many elements of a
  // rank; on the CPU every so many-th comes up to be updated on the GPU (Deep Optimizer States; 0:
  // none), and gradients come down beside the backward pass, in fp32.
  std::int64_t sub_group = 1'000'000'000;
  int gpu_stride = 0;
  bool async_gradient_copy = false;
  // A stage takes its step with the norm of the gradients up to its own; the norm of all comes back
  // in the next step's warm-up, and the step is taken back where that would have changed it
  // (--enable-optimizer-post-validation, arXiv:2401.10241 section 4): stages need not end together.
  bool post_validation = false;
};

// Low-rank adapters beside the products of every layer: they alone are trained, everything else
// stays as it is (NeMo and Megatron-Bridge: peft.lora, ParallelLinearAdapter).
struct LoraOptions {
  int rank = 0;  // 0: no adapters, everything is trained
  bool qkv = true, projection = true, fc1 = true, fc2 = true;
  // An adapter beside a row-parallel product trades columns for rows by all-to-all, where it
  // gathers all columns of all rows otherwise (sequence parallelism; NeMo's a2a_experimental).
  bool all_to_all = false;
};

// What the ranks of a data-parallel group share.
enum class DataParallelism : std::uint8_t {
  ddp,    // Megatron-LM: whole parameters and gradients; ZeRO-1 with the distributed optimizer
  fsdp1,  // PyTorch's FullyShardedDataParallel: flat parameters
  fsdp2,  // PyTorch's fully_shard: parameters of their own
};

// Parameters, gradients and optimizer state in shards (ZeRO-2, ZeRO-3, hybrid).
struct FsdpOptions {
  bool reshard_after_forward = true;  // false: whole until their backward pass (ZeRO-2)
  bool limit_all_gathers = true;      // fsdp1: the CPU waits before a third gather is in flight
  bool no_sync = false;               // only the last microbatch reduces gradients
  bool fp32_parameters = false;       // gathered in fp32, cast by autocast
  int forward_prefetch = 0;           // units gathered ahead; 0: as far as the CPU runs ahead
  int backward_prefetch = 1;
  int replicas = 1;  // copies of the parameters: dp / replicas x cp ranks share one (hybrid)
  // ZeRO++ (arXiv:2306.10209). Neighbours that keep a second copy in 16 bits behind a forward pass,
  // which the backward pass gathers (hpZ); 1: none do.
  int secondary = 1;
  bool quantized_weights = false;    // qwZ: a forward pass gathers a byte an element
  bool quantized_gradients = false;  // qgZ: two exchanges in 4 bits instead of a reduce-scatter
};

// A ring has as many rank classes as steps: a program grows with the square.
inline constexpr int max_context_parallel = 256;

// How tokens travel to their experts and back (Megatron-LM core 0.14, moe/token_dispatcher.py).
enum class Dispatcher : std::uint8_t {
  alltoall,      // each token's copies to the ranks of its experts
  allgather,     // every token to every rank
  alltoall_seq,  // core 0.8's alltoall: hidden columns, not tokens, are split over tensor ranks
  flex,          // DeepEP: one copy to each rank, of those in other nodes one to each node
};
// How many tokens each expert gets.
enum class Routing : std::uint8_t {
  balanced,  // all as many
  random,    // drawn evenly, anew for each layer and microbatch
  skewed,    // drawn by Zipf's law; which experts are the popular ones is drawn for each layer; or
             // by shares that are given
};

// How layers of experts run.
struct ExpertsPlan {
  Dispatcher dispatcher = Dispatcher::alltoall;
  Routing routing = Routing::balanced;
  double skew = 1.0;  // exponent of Zipf's law
  // In its place: the file of shares of the experts, and what it says: a row for all layers with
  // experts, or one for each.
  std::string load;
  std::vector<std::vector<double>> shares;
  std::int64_t seed = 1;       // of what is drawn
  double capacity_factor = 0;  // tokens that an expert takes, of its even share; 0: all (dropless)
  bool pads_to_capacity = false;
  bool grouped_gemm = true;  // products of all experts of a rank in one call
  // ... of the package grouped_gemm, not of TransformerEngine's GroupedLinear: gradients of the
  // weights are tensors of their own, which autograd hands over (--moe-use-legacy-grouped-gemm).
  bool legacy_grouped_gemm = false;
  bool permute_fusion = true;  // TransformerEngine's kernels
  bool fp32_router = false;    // --moe-router-dtype fp32
  // Cores before 0.13: outputs are multiplied by the probabilities where they are summed.
  bool late_probabilities = false;
  bool shared_overlap = false;       // the shared expert on a stream of its own
  bool overlaps_all_to_all = false;  // beside another microbatch's work
};

// How the ranks are split. World size = tp x cp x pp x dp. Experts count the same ranks as etp x ep
// x what is left x pp (job/mesh/axes.h).
struct MeshPlan {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  int ep = 1;
  int etp = 0;                    // 0: tp
  bool sequence_parallel = true;  // Megatron-LM turns it off at tp = 1
  // Of the tp ranks, so many share the columns of a weight and the rest its rows (AxoNN); 1: rows
  // alone, as Megatron-LM cuts a column-parallel weight.
  int tensor_columns = 1;
  // Of the dp ranks, so many neighbours share the layers' weights, which are gathered around each
  // product: AxoNN's third dimension of tensors, over which it cuts the batch too.
  int tensor_depth = 1;
  std::string rank_order;        // "tp-cp-ep-dp-pp", fastest first; "": that one
  std::string context = "ring";  // how cp ranks share a sequence: a name of context::catalog()
  int ulysses = 0;  // of a context of two levels, neighbours that exchange sequence for heads; 0:
                    // as many as share the key-value heads evenly (context_plan.h)
};

// The samples of a step.
struct BatchPlan {
  int micro_batch = 1;   // sequences per microbatch
  int global_batch = 1;  // sequences per step
  // Microbatches of a step that each data-parallel replica does, empty: all as many; or as the
  // times of the plan's own microbatches ask for (answer/microbatch_balance.h), as even as it goes
  // until then
  // (replicas.h).
  std::vector<int> replica_microbatches;
  bool balances_microbatches = false;
  std::int64_t sequence = 0;
  // Mean tokens of a document in samples that pack several (cu_seqlens; qkv_format thd), where
  // attention stays inside each; 0: a sample is one document.
  std::int64_t packed_document = 0;
};

// How layers are dealt out to the parts of the model (layer_partition.h).
// `balanced`: as the times of the plan's own blocks ask for (answer/balance.h); padded until then.
enum class LayerSplit : std::uint8_t { even, padded, weighted, balanced };

// Whose outputs PyTorch's pipeline stages keep for every microbatch until the next step begins.
enum class KeptOutputs : std::uint8_t {
  no_stage,     // since pull request 165822 of 2025-10, asked for
  last_stage,   // since pull request 153383 of 2025-05
  every_stage,  // before
};

// In which order stages work on microbatches, and which layers they hold.
struct PipelinePlan {
  std::string schedule = "1f1b";  // a name of schedule::catalog()
  int virtual_stages = 1;         // model chunks per pipeline rank (interleaving)
  // How interleaved schedules fill the pipeline: it differs between frameworks and their versions.
  schedule::Interleaving interleaving = schedule::Interleaving::all_forwards_first;
  int microbatch_group = 0;  // --microbatch-group-size-per-vp-stage, 0: the schedule's own
  // Uneven stages: Megatron-LM's --decoder-first-pipeline-num-layers and its fellow (0: as the
  // others), or the embedding and the head counting as a layer each.
  int first_stage_layers = 0, last_stage_layers = 0;
  bool account_for_embedding = false, account_for_loss = false;
  LayerSplit layer_split = LayerSplit::even;
  int embedding_layers = 1, head_layers = 1;  // weighted: what they count as
  std::vector<int> layers_of_parts;           // each part's own number, empty: by the rule
  // Of schedules that cut sequences: tokens of each slice, empty: as many even ones as the schedule
  // says; or as the times of the plan's own blocks ask for (answer/slices.h), even until then.
  std::vector<std::int64_t> slice_lengths;
  bool balances_slices = false;
  // Of parameters in shards: what torch.distributed.pipelining keeps beyond its microbatch. The
  // gradients of stages' inputs until the next step, too: before pull request 164329 of 2025-10.
  KeptOutputs kept_outputs = KeptOutputs::no_stage;
  bool kept_input_gradients = false;
  schedule::Times pass_times;  // what a searched order is to go by; ratios count
};

// What the ranks of a data-parallel group share, and what is sent beside computation.
struct ShardingPlan {
  DataParallelism data_parallel = DataParallelism::ddp;
  FsdpOptions fsdp;
  bool distributed_optimizer = true;
  // Copies of the optimizer's state: dp x cp / optimizer_replicas ranks share one.
  int optimizer_replicas = 1;
  // A rank keeps the state of whole parameters, not of slices of buckets: gradients are summed on
  // all ranks, and each sends what it updated to the others (InternEvo).
  bool whole_parameters = false;
  // The distributed optimizer is DeepSpeed's: gradients are tensors of their own, of the
  // parameters' type, reduced at the end of a step (deepspeed_zero1.h). Of parameters in shards:
  // they are its ZeRO-3's (deepspeed_zero3.h).
  bool deepspeed_optimizer = false;
  // ... of which all ranks get the sum of a whole bucket, instead of each its own part (DeepSpeed
  // since 0.12.4: use_multi_rank_bucket_allreduce). In shards: ZeRO-3 with reduce_scatter false
  // [DeepSpeed runtime/zero/stage3.py:__avg_scatter_contiguous_grads].
  bool deepspeed_all_reduce = false;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
};

// What becomes of a layer's saved tensors until its backward pass.
enum class LayerChoice : std::uint8_t {
  keep,       // they stay
  swap,       // they wait on the CPU; copied down until the next layer that swaps is done, and up
              // from where the one behind it is back
  recompute,  // its input alone stays, the layer runs again
};

// Modules of a layer whose saved tensors may wait on the CPU, in the order in which a layer is done
// with them (module_offload.h).
enum class OffloadModule : std::uint8_t {
  qkv_linear,
  core_attn,
  attn_proj,
  attn_norm,  // a norm that is no part of a product
  expert_fc1,
  moe_act,
  mlp_norm,  // ... of experts
};
inline constexpr int offload_module_count = 7;
constexpr std::uint8_t bit_of(OffloadModule module) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(module));
}

// What a layer keeps for its backward pass, runs again, or leaves to the CPU.
struct LayerPolicy {
  Recompute recompute = Recompute::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  RecomputeModules recompute_modules;
  int recompute_layers = 1;  // uniform: layers per chunk; block: layers recomputed per stage
  // --cpu-offloading-num-layers: what the first layers save waits for its backward pass on the CPU;
  // it is copied beside the layers.
  int offload_layers = 0;
  // Modules whose saved tensors wait there, a bit each; not those of fewer elements.
  std::uint8_t offload_modules = 0;
  std::int64_t offload_min_elements = 1048576;
  // Of the groups of a microbatch, in the order in which they go, the first so many do; and a stage
  // keeps so many bytes more of a step than the one before it (module_offload.h).
  double activation_offload_fraction = 1;
  std::int64_t offload_delta_bytes = 0;
  // Each layer's own choice, of every chunk; empty: by the fields above. Or as the costs of the
  // plan's own blocks ask for (answer/layer_choices.h), all kept until then.
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

// What of a layer's products is rounded to a narrow grid and back before it is multiplied, in
// quantisation-aware training (fake_quantize.h).
enum class FakeQuantization : std::uint8_t { none, weights, operands };

// Where the scale of a tensor comes from that is cast to fp8 (fp8.h): from the largest magnitudes
// of earlier steps (TransformerEngine's delayed scaling), or from its own, which is found before
// the cast (TransformerEngine's current scaling, torchao's dynamic one).
enum class Fp8Recipe : std::uint8_t { delayed, tensorwise };

struct NumericsPlan {
  model::Precision precision = model::Precision::bf16;
  bool tf32 = false;  // products of fp32 tensors in tf32 (NVIDIA_TF32_OVERRIDE, allow_tf32)
  bool fp8 = false;   // products of the layers in fp8
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  bool fp8_parameters = false;  // the layers' matrices are held in fp8 alone (--fp8-param-gather)
  bool fp32_gradients = true;   // --accumulate-allreduce-grads-in-fp32
  FakeQuantization fake_quantization = FakeQuantization::none;
  // Gradients of what lies outside the grid are zeroed, for which what was rounded is kept
  // (ModelOpt's pass_through_bwd false).
  bool fake_quantization_clips = false;
};

// How the framework does what the other parts ask for: its kernels, its loss, its loader, its logs.
struct StackPlan {
  AttentionBackend attention = AttentionBackend::flash;
  LayerKernels layer_kernels = LayerKernels::fused;
  bool swiglu_fusion = true;
  bool rope_fusion = true;
  // Queries and keys of the fused rotary embedding are turned for the core, which then reads and
  // writes the batch first, whatever its kernels ask for (Megatron-LM to core 0.13).
  bool batch_first_core = true;
  // RMSNorm of operators one by one is a kernel too (PyTorch since pull request 153666 of 2025).
  bool norm_fusion = false;
  bool gradient_accumulation_fusion = true;
  LayerCode layer_code = LayerCode::core;
  CrossEntropy cross_entropy = CrossEntropy::stepwise;
  // PyTorch's checkpoints without reentrant autograd (torch.utils.checkpoint's early_stop, since
  // 2.1): what runs again ends where all is there that the backward pass asks for, and a compiler
  // leaves out what nobody reads: a layer's last product and all that follows it.
  bool checkpoint_early_stop = false;
  bool fused_optimizer = true;  // one kernel for all tensors; else PyTorch's operators, each tensor
  // Query, key and value, and the halves of a gated MLP, come from products of their own.
  bool separate_products = false;
  // torch.use_deterministic_algorithms: PyTorch fills every tensor that it makes, by a kernel of
  // its own (torch.utils.deterministic.fill_uninitialized_memory, on by default).
  bool deterministic = false;
  bool gradient_clipping = true;
  bool check_for_nan = true;  // per-bucket norm and host sync
  // TransformerEngine sends sequence-parallel activations in tp pieces beside its products (user
  // buffers, --tp-comm-overlap).
  bool tp_comm_overlap = false;
  // Without sequence parallelism, a column-parallel product's input gradient is summed beside its
  // weight gradient (--no-async-tensor-model-parallel-allreduce: behind it).
  bool overlap_tensor_reduce = true;
  // Of weights that lie over several ranks (tensor_depth): a forward pass gathers that of the next
  // product beside the one at hand; gradients are scattered beside the rest of the backward pass
  // (--overlap-axonn-all-gather, --overlap-axonn-reduce-scatter).
  bool overlap_depth_gather = true, overlap_depth_scatter = true;
  // ... and a product's backward pass finds the weight that its forward pass gathered (AxoNN to
  // June 2024); else it gathers again.
  bool saved_depth_weights = false;
  // Halves of a layer that stand side by side are summed over the tensor-parallel ranks once, both
  // together (GPT-NeoX's gpt_j_residual).
  bool joined_halves = false;
  // Keys and values of grouped heads are copied for every query head before a fused core.
  bool repeat_kv = false;
  // TransformerEngine 2: the uninitialised gradient handed to autograd is one a shape, for good.
  bool kept_gradient_handles = false;
  bool attention_mask = true;  // dataloader mask b x 1 x s x s (--no-create-... turns it off)
  // --reset-attention-mask: each sample has a mask of its own, which the data loader's workers
  // (--num-workers) make.
  bool reset_attention_mask = false;
  int data_workers = 2;
  int logit_metrics = 0;  // cross entropies of the logits after each microbatch, for a log
  bool logs_optimizer_state = false;  // the paper authors' fork reads every shard back each step
};

// Messages that the communication library compresses, by who sends them: names of
// calibration/codecs, "": as they are. Parameters that data-parallel ranks gather: "": as `data`.
struct CodecsPlan {
  std::string tensor, data, parameters, pipeline;
  collective::Codecs found;  // what the names stand for
};

// Variables of the process.
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
  // Each sample has a mask of its own, which a data loader makes.
  bool makes_masks() const { return stack.attention_mask && stack.reset_attention_mask; }
  // Norms go from stage to stage and come back in the next step.
  bool validates_steps() const { return optimizer.post_validation && stack.gradient_clipping; }
  bool trains_adapters() const { return lora.rank > 0; }
  bool shards_parameters() const { return sharding.data_parallel != DataParallelism::ddp; }
  // Copies of what data-parallel ranks share: of parameters in shards, or of the optimizer's state.
  int replicas() const {
    return mesh.tensor_depth > 1            ? mesh.dp * mesh.cp / mesh.tensor_depth
           : shards_parameters()            ? sharding.fsdp.replicas
           : sharding.distributed_optimizer ? sharding.optimizer_replicas
                                            : 1;
  }
  // Products of weight gradients add into Megatron-LM's buffer.
  bool accumulates_in_product() const {
    return stack.gradient_accumulation_fusion && !shards_parameters();
  }
  // Matrices held in fp8 have a transposed copy that stays; frozen ones, and those that are
  // gathered in fp8, make it for each product.
  bool keeps_transposed_weights() const {
    return numerics.fp8_parameters && !trains_adapters() && !shards_parameters();
  }
  // Of products that are never in fp8, and of those that may be.
  model::Precision wide_precision() const {
    return numerics.tf32 ? model::Precision::tf32 : numerics.precision;
  }
  model::Precision product_precision() const {
    return numerics.fp8 ? model::Precision::fp8 : wide_precision();
  }
  // Of a model chunk. REQUIRES: the plan has no problems.
  int chunk_layers(int stage, int chunk) const;
  // Ranks that share each product of an expert; 1 where there are none.
  int expert_tp() const {
    return !architecture.is_mixture() ? 1 : mesh.etp > 0 ? mesh.etp : mesh.tp;
  }
  bool draws_routes() const {
    return architecture.is_mixture() && experts.routing != Routing::balanced;
  }
  // Every stage has a share of the vocabulary: the schedule has output passes.
  bool cuts_vocabulary() const;
  // Tensor-parallel ranks that share the heads, and the rows of column-parallel weights.
  int tensor_rows() const { return mesh.tp / mesh.tensor_columns; }
  int world() const { return mesh.tp * mesh.cp * mesh.pp * mesh.dp; }
  // Microbatches per pipeline and step, of the replica that does most. REQUIRES: the plan has no
  // problems.
  int microbatches() const;
  // Those of the first step: it is a warm-up that creates the optimizer's state and fills the
  // pipeline as far as it is ever filled, or whole where stages keep what each microbatch leaves;
  // the steps after it are whole.
  int warm_up_microbatches() const;
  // Chunks of a rank that one microbatch passes through.
  int tasks_per_microbatch() const;
  std::int64_t local_sequence() const { return batch.sequence / mesh.cp; }
  bool uses_sequence_parallel() const { return mesh.sequence_parallel && mesh.tp > 1; }
};

// What the plan's schedule is asked for, for a step of so many microbatches.
schedule::Shape pipeline_shape(const Plan& plan, int microbatches);

// Every rule that the plan breaks, with the values that would satisfy it. `where` is the setting:
// "tp", "fsdp", "model". Empty: the plan is valid (valid_plan.h).
Diagnostics problems(const Plan& plan);

// "tp2 cp1 pp2 dp8 mbs1 gbs1024 seq8192": for tables and point names.
std::string short_name(const Plan& plan);

}  // namespace sim::program
