// stack_plan.h — the implementation of a framework: precisions, kernels, loss, data loader, logs.
//
// Part of a Plan (plan.h). Two plans that differ here train the same network in the same layout.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/model/operation.h"
#include "sim/program/plan/cuda_graphs.h"

namespace sim::program {

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

}  // namespace sim::program
