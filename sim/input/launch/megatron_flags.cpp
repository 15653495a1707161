#include "sim/input/launch/megatron_flags.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "sim/base/text.h"
#include "sim/input/fields/fields.h"

namespace sim::input {
namespace {

struct Mapped {
  std::string_view name;
  std::string setting;
};
// Flags in the table of fields (fields/fields.h).
const std::vector<Mapped>& mapped() {
  static const std::vector<Mapped> all = [] {
    std::vector<Mapped> found;
    for (const std::string_view flag : megatron_flags())
      found.push_back({flag, megatron_setting(flag)});
    return found;
  }();
  return all;
}

// Flags that share a reason, separated by blanks.
struct Family {
  std::string_view names, text;
};
constexpr std::string_view together =
    "row-tensor-model-parallel-size column-tensor-model-parallel-size "
    "depth-tensor-model-parallel-size overlap-axonn-comm overlap-axonn-all-gather "
    "overlap-axonn-reduce-scatter "
    "recompute-granularity activations-checkpoint-granularity recompute-num-layers "
    "activations-checkpoint-num-layers checkpoint-num-layers recompute-modules "
    "checkpoint-activations num-workers use-flash-attn use-flash-attn-v2 use-flash-attn-builder "
    "cross-entropy-loss-fusion cross-entropy-fusion-impl attention-backend transformer-impl "
    "num-query-groups group-query-attention attention-head-type "
    "num-key-value-heads num-attention-heads-kv n-head-kv use-rms-norm "
    "no-tie-embed-logits "
    "normalization RMSNorm position-embedding-type "
    "use-rotary-position-embeddings use-llama2-rotary-position-embeddings "
    "use-mistral-rotary-position-embeddings no-position-embedding use-alibi-mask "
    "disable-bias-linear disable-bias-linear-fc glu-activation squared-relu quick-geglu "
    "main-grads-dtype vocab-size padded-vocab-size vocab-file tokenizer-type tokenizer-model "
    "tokenizer-name-or-path pad-vocab-size-to make-vocab-size-divisible-by vocab-extra-ids "
    "extra-vocab-size hf-tokenizer-path clip-grad fp4-format fp8-format fp8-recipe optimizer "
    "deepspeed deepspeed-config zero-stage no-pipeline-parallel no-deepspeed use-megatron-fsdp "
    "use-custom-fsdp data-parallel-sharding-strategy overlapped-distributed-optimizer spec "
    "is-hybrid-model num-experts moe moe-router-dtype multi-latent-attention kv-lora-rank "
    "qk-layernorm moe-router-load-balancing-type cp-comm-type no-masked-softmax-fusion "
    "pp-partition-method hierarchical-context-parallel-sizes ds-sequence-parallel-size "
    "window-size window-attn-skip-freq cpu-offloading fine-grained-activation-offloading "
    "offload-modules enable-cuda-graph external-cuda-graph cuda-graph-impl cuda-graph-scope "
    "cuda-graph-modules full-iteration-cuda-graph num-micro-batches-per-dp "
    "micro-batch-size-per-dp moe-layer-recompute topk expert-interval moe-expert-parallel-size "
    "enable-zero-bubble zero-bubble-v-schedule zero-bubble-v-schedule-mem-setup "
    "zero-bubble-max-pending-backward enable-zbh1-pipeline enable-vocab-parallel "
    "disable-backward-fusion use-interlaced-schedule enable-layer-redistribution "
    "final-stage-num-layers";

// "--x is not simulated: ...".
constexpr std::array noted{
    Family{"qk-l2-norm qk-norm", "the norms of queries and keys are left out"},
    Family{"fp32-residual-connection", "residuals are simulated in 16 bits"},
    Family{"sliding-window sliding-window-size", "attention is simulated over all tokens"},
    Family{"distribute-saved-activations distribute-checkpointed-activations "
           "partition-activations",
           "what recomputation keeps is whole on every rank"},
    Family{"checkpoint-in-cpu contigious-checkpointing",
           "what recomputation keeps stays on the GPU"},
    Family{"synchronize-each-layer", "the CPU waits nowhere"},
    Family{"delay-grad-reduce no-delay-grad-reduce delay-param-gather",
           "buckets go when they are full"},
    Family{"ddp-bucket-size ddp-num-buckets reduce-bucket-size zero-reduce-bucket-size "
           "zero-allgather-bucket-size suggested-communication-unit-size last-bucket-split-count",
           "buckets have the default size"},
    Family{"ddp-pad-buckets-for-high-nccl-busbw no-align-grad-reduce no-align-param-gather",
           "buckets are not aligned otherwise"},
    Family{"ddp-average-in-collective no-gradient-reduce-div-fusion calculate-per-token-loss",
           "gradients are scaled as by default"},
    Family{"ddp-reduce-scatter-with-fp32-accumulation", "gradients are summed as they are sent"},
    Family{"overlap-param-gather-with-optimizer-step", "the optimizer's step is not overlapped"},
    Family{"overlap-p2p-communication overlap-p2p-communication-warmup-flush "
           "no-overlap-p2p-communication",
           "sends and receives overlap as the schedule has it"},
    Family{"no-scatter-gather-tensors-in-pipeline", "sends between stages are whole"},
    Family{"defer-embedding-wgrad-compute wgrad-deferral-limit delay-wgrad-compute",
           "weight gradients are made with the others"},
    Family{"optimizer-cuda-graph", "kernels of the optimizer are launched one by one"},
    Family{"rampup-batch-size step-batch-size-schedule", "the step is of the full global batch"},
    Family{"curriculum-learning data-efficiency-curriculum-learning random-ltd adaptive-seq-len",
           "the step is of the full sequence"},
    Family{"manual-gc", "the garbage collector never runs"},
    Family{"fp16-lm-cross-entropy", "cross entropy is simulated in fp32"},
    Family{"no-bias-gelu-fusion no-bias-dropout-fusion bias-activation-fusion "
           "no-persist-layer-norm mem-efficient-ln disable-mem-efficient-ln disable-jit-fuser "
           "no-layer-norm-fusion no-optimizer-fusion",
           "the fused kernels are simulated"},
    Family{"apply-residual-connection-post-layernorm", "residuals are taken before the norms"},
    Family{"parallel-attn parallel-layernorm", "attention and the MLP run one after the other"},
    Family{"no-paired-barrier measure-activation-memory enable-zb-runtime "
           "zero-bubble-adaptive-memory-limit-percentile enable-optimizer-post-validation "
           "enable-zbh1-exact-semantics "
           "no-pre-communication-optimization offload-overlap-sr",
           "stages wait for messages only"},
    Family{"recompute-lgd", "layers are recomputed as --recompute-granularity says"},
    Family{"disable-te-fused-rope", "rotation is one kernel"},
    Family{"openai-gelu onnx-safe", "GELU is one kernel"},
    Family{"no-tp-comm-split-ag no-tp-comm-split-rs tp-comm-overlap-cfg tp-comm-overlap-rs-dgrad "
           "disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag "
           "disable-tp-comm-overlap-rs disable-tp-comm-split-ag disable-tp-comm-split-rs "
           "tp-comm-bootstrap-backend no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad "
           "no-tp-comm-overlap-ag "
           "no-tp-comm-overlap-rs",
           "communication of tensor parallelism overlaps as by default"},
    Family{"symmetric-ar-type use-nccl-ub disable-symmetric-registration use-sharp "
           "sharp-enabled-group nccl-communicator-config-path high-priority-stream-groups "
           "nccl-ub",
           "NCCL runs with its defaults"},
    Family{"use-ring-exchange-p2p pipeline-model-parallel-comm-backend",
           "sends and receives are NCCL's"},
    Family{"outer-dp-sharding-strategy", "copies of the optimizer's state are whole"},
    Family{"megatron-fsdp-main-params-dtype megatron-fsdp-main-grads-dtype "
           "megatron-fsdp-grad-comm-dtype",
           "gradients are held as --accumulate-allreduce-grads-in-fp32 says"},
    Family{"optimizer-offload-policy optimizer-offload-chunk-size "
           "optimizer-offload-auto-threshold use-torch-optimizer-for-cpu-offload "
           "no-pin-cpu-grads no-pin-cpu-params",
           "offloading is simulated as Megatron-LM's default has it"},
    Family{"fine-grained-offloading-max-inflight-offloads delay-offload-until-cuda-graph",
           "copies to the CPU go at once and are not waited for"},
    Family{"fp8-interval fp8-wgrad no-fp8-wgrad fp8-dot-product-attention "
           "fp8-multi-head-attention first-last-layers-bf16 num-layers-at-start-in-bf16 "
           "num-layers-at-end-in-bf16 keep-fp8-transpose-cache "
           "keep-fp8-transpose-cache-when-using-custom-fsdp reuse-grad-buf-for-mxfp8-param-ag "
           "fp8-quantizer-factory te-precision-config-file kitchen-config-file "
           "kitchen-recipe-number",
           "fp8 is simulated in all layers, with the usual scales"},
    Family{"fp4-param-gather", "parameters are gathered in 16 bits"},
    Family{"batch-invariant-mode", "the default kernels are simulated"},
    Family{"memory-centric-tiled-linear", "products are not tiled"},
    Family{"apply-query-key-layer-scaling no-query-key-layer-scaling",
           "scores are scaled in the kernel"},
    Family{"attention-softmax-in-fp32 softmax-type", "softmax is the kernel's"},
    Family{"DDP-impl no-contiguous-buffers-in-local-ddp use-contiguous-buffers-in-ddp",
           "gradients are in contiguous buffers"},
    Family{"empty-unused-memory-level", "the cache is never emptied"},
    Family{"check-weight-hash-across-dp-replicas-interval check-for-spiky-loss "
           "check-for-large-grads",
           "that check costs nothing"},
    Family{"use-cpu-initialization init-model-with-meta-device",
           "the memory of building the model is not simulated"},
    Family{"sft use-packed-sequence no-padding", "samples are whole sequences"},
    Family{"fsdp-double-buffer fsdp-db-use-persist-buf-on-alloc-fail "
           "megatron-fsdp-max-pool-double-buffer megatron-fsdp-enable-fine-grained-param-gather "
           "enable-full-sharding-in-hsdp",
           "Megatron-FSDP is simulated as PyTorch's fully_shard"},
    Family{"use-transformer-engine-op-fuser",
           "products and their neighbours are kernels of their own"},
    Family{"zero-contigious-gradients zero-reduce-scatter",
           "ZeRO is simulated with contiguous gradients"},
    Family{"use-bnb-optimizer", "Adam's state is in fp32"},
    Family{"use-one-sent-docs loss-on-targets-only reweight-loss-based-on-position-frequency",
           "the loss is over all tokens"},
    // Core 0.6 to 0.9 of okoge-kaz/Megatron-LM and llm-jp/Megatron-LM: compute_language_model_loss
    // calls vocab_parallel_cross_entropy without the arguments that turn it on.
    Family{"use-z-loss", "the cores that know it never hand it to their loss"},
    Family{"z-loss", "the z-loss costs nothing"},
    Family{"log-optimizer-states-to-tensorboard",
           "the norms of the optimizer's state cost nothing"},
    Family{"mup use-mup", "the scaling of muP costs nothing"},
    Family{"use-fused-weighted-squared-relu use-normhead", "the plain kernel is simulated"},
    Family{"glu-linear-offset activation-func-clamp-value", "the plain activation is simulated"},
    Family{"no-use-layer-wise-param-layout no-clone-scatter-output-in-embedding "
           "disable-bf16-reduced-precision-matmul",
           "the default is simulated"},
    Family{"inprocess-restart enable-ft-package", "what restarts a job costs nothing"},
    Family{"rerun-mode", "nothing is run again"},
    Family{"torch-profile profile use-pytorch-profiler memory-profile log-timers-to-tensorboard",
           "the profiler costs nothing"},
    Family{"bitfit freeze-transformer-layers use-freeze-parameter", "all parameters are trained"},
    Family{"mlp-chunks-for-training variable-seq-lengths hybrid-context-parallel",
           "samples are taken whole"},
    Family{"fused-residual-rmsnorm", "norms and residuals are kernels of their own"},
    Family{"moe-ncclep-static-shape", "the dispatcher sends what the router chose"},
    Family{"no-pad-vocab-size", "the vocabulary is padded to a multiple of 128 x tp"},
    Family{"use-embedding-scaling qk-clip", "that scaling costs nothing"},
    Family{"embedding-weights-in-fp32", "the embedding has the precision of the other weights"},
    Family{"memory-efficient-layer-norm", "norms keep their inputs for backward"},
    Family{"moe-paged-stash", "activations of experts stay in the allocator"},
    Family{"use-layer-wise-distributed-optimizer",
           "the optimizer is Megatron-LM's distributed one"},
};

// "--x: ...".
constexpr std::array refused{
    Family{"moe-latent-size", "experts in a narrower space than the hidden size are not simulated"},
    Family{"mhc-num-residual-streams", "hyper-connections are not simulated"},
    Family{"moe-shared-expert-gate", "a gate on the shared expert is not simulated"},
    Family{"moe-topk", "write --moe-router-topk, the flag of Megatron-LM"},
    Family{"num-shared-experts enable-shared-expert",
           "write --moe-shared-expert-intermediate-size with the width of all shared experts"},
    Family{"offload-optimizer-states",
           "moving optimizer states to the CPU between steps is not simulated; remove it, or write "
           "--optimizer-cpu-offload, which is"},
    Family{"interleave-group-size", "write microbatch_group= instead"},
    Family{"num-seq-splits", "passes of parts of a sequence are not simulated with this schedule"},
    Family{"cpu-offload offload-continuous-buffers",
           "the moves of activations of PipeOffload are not simulated; write "
           "--cpu-offloading-num-layers"},
    Family{"post-layer-norm no-attn-layernorm no-mlp-layernorm no-final-layernorm",
           "layers without a norm in front of each half are not simulated"},
    Family{"xielu xiprelu xiprelup", "an activation with weights of its own is not simulated"},
    Family{"moe-router-topk-limited-devices",
           "routes to a limited number of devices are not simulated; write "
           "--moe-router-num-groups"},
    Family{"use-post-ln", "norms after each half alone are not simulated"},
    Family{"use-mics", "MiCS is not simulated"},
    Family{"prefixlm", "attention that sees a prefix whole is not simulated"},
    Family{"enable-mhc-connections", "hyper-connections are not simulated"},
    Family{"gtp-weight-remat-size", "splitting weights over a further dimension is not simulated"},
    Family{"mtp-standalone", "a stage for multi-token prediction alone is not simulated"},
    Family{"standalone-embedding-stage", "a stage for the embedding alone is not simulated"},
    Family{"pipeline-model-parallel-split-rank encoder-pipeline-model-parallel-size "
           "encoder-tensor-model-parallel-size",
           "an encoder is not simulated"},
    Family{"enable-1f1b-v",
           "write schedule= with the name of a schedule (rehearse list schedules)"},
    Family{"allow-padding-num-layers", "layers that only fill a stage are not simulated"},
    Family{"offload-chunk-num",
           "the moves of activations of PipeOffload are not simulated; write "
           "--cpu-offloading-num-layers"},
    Family{"force-ds-sequence-parallel ds-sequence-parallel-fpdt",
           "DeepSpeed's sequence parallelism in pieces is not simulated"},
    Family{"hybrid-override-pattern hybrid-layer-pattern hybrid-attention-ratio hybrid-mlp-ratio "
           "mamba-num-heads",
           "layers with a state space are not simulated"},
    Family{"heterogeneous-layers-config-path heterogeneous-layers-config-encoded-json",
           "layers that differ are not simulated"},
    Family{"experimental-attention-variant linear-attention-freq",
           "linear attention is not simulated"},
    Family{"attention-output-gate", "a gate on attention is not simulated"},
    Family{"retro-add-retriever", "a retriever is not simulated"},
    Family{"perform-rl-step langrl-env-config", "reinforcement learning is not simulated"},
    Family{"mos kd distillation export-kd-cfg export-kd-teacher-load load-teacher "
           "num-layers-teacher",
           "a teacher is not simulated"},
    Family{"flextron", "an elastic network is not simulated"},
    Family{"logits-save-dir logits-load-dir logits-load-kd-loss-alpha",
           "a teacher's logits are not simulated"},
    Family{"freeze-base-for-mtp freeze-all-layers", "frozen layers are not simulated"},
    Family{"transformer-type", "write the flags of the layers instead"},
};

std::vector<std::string_view> words(std::string_view names) {
  std::vector<std::string_view> all;
  while (!names.empty()) {
    all.push_back(names.substr(0, names.find(' ')));
    names.remove_prefix(std::min(all.back().size() + 1, names.size()));
  }
  return all;
}

// All flags by name, in a hash map: scripts with loops look up flags often.
using Meanings = std::unordered_map<std::string_view, FlagMeaning>;
const Meanings& meanings() {
  static const Meanings all = [] {
    Meanings made;
    const auto add = [&made](std::string_view names, FlagMeaning meaning) {
      for (const std::string_view name : words(names)) made.try_emplace(name, meaning);
    };
    add(together, {FlagEffect::together, ""});
    for (const Mapped& one : mapped())
      made.try_emplace(one.name, FlagMeaning{FlagEffect::mapped, one.setting});
    for (const Family& one : noted) add(one.names, {FlagEffect::noted, one.text});
    for (const Family& one : refused) add(one.names, {FlagEffect::refused, one.text});
    add(harmless_flags, {FlagEffect::harmless, ""});
    return made;
  }();
  return all;
}

}  // namespace

FlagMeaning flag_meaning(std::string_view name) {
  const auto found = meanings().find(name);
  return found == meanings().end() ? FlagMeaning{} : found->second;
}

std::string did_you_mean_flag(std::string_view name) {
  std::vector<std::string> names;
  const auto append = [&names](std::string_view more) {
    for (const std::string_view one : words(more)) names.emplace_back(one);
  };
  for (const Mapped& one : mapped()) names.emplace_back(one.name);
  append(together);
  for (const Family& one : noted) append(one.names);
  for (const Family& one : refused) append(one.names);
  append(harmless_flags);
  const std::string near = nearest(name, names);
  return near.empty() ? "" : "; did you mean --" + near + "?";
}

}  // namespace sim::input
