// plan.h — what to train and how it is parallelised: every setting of a launch script that changes
// the work that a rank issues.
//
// A plan says nothing about machines. `problems` lists every rule that a plan breaks (rules/). A
// plan without problems always has a program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/collective/codec.h"
#include "sim/model/architecture.h"
#include "sim/program/plan/layer_policy.h"
#include "sim/program/plan/parallel_plan.h"
#include "sim/program/plan/stack_plan.h"

namespace sim::program {

// Low-rank adapters beside the products of every layer. Only the adapters are trained; all other
// parameters are frozen (NeMo and Megatron-Bridge: peft.lora, ParallelLinearAdapter).
struct LoraOptions {
  int rank = 0;  // 0: no adapters, everything is trained
  bool qkv = true, projection = true, fc1 = true, fc2 = true;
  // With sequence parallelism, the adapter of a row-parallel product exchanges columns for rows by
  // all-to-all (NeMo's a2a_experimental). Otherwise it gathers all columns of all rows.
  bool all_to_all = false;
  // An adapter reads its input after dropout, and keeps that copy and its mask.
  bool dropout = false;
};

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
  // Whether sharded experts lie on other groups of ranks than the other sharded parameters. FSDP2
  // wraps experts on a mesh of their own [torchtitan distributed/parallel_dims.py: efsdp].
  bool splits_experts_apart() const {
    return architecture.is_mixture() && (mesh.ep > 1 || expert_tp() != mesh.tp);
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
schedule::PipelineShape pipeline_shape(const Plan& plan, int microbatches);

// Every rule that the plan breaks, with the values that would satisfy it. `where` is the setting at
// fault: "tp", "fsdp", "model". Empty: the plan is valid (valid_plan.h).
Diagnostics problems(const Plan& plan);

// "tp2 cp1 pp2 dp8 mbs1 gbs1024 seq8192": for tables and point names.
std::string short_name(const Plan& plan);

}  // namespace sim::program
