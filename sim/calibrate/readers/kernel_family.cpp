// kernel_family.cpp — table from parts of kernel names to families. Sources: traces, and the code
// of the libraries named below.
#include "sim/base/ascii.h"
#include "sim/calibrate/readers/kernel_family.h"

#include <algorithm>
#include <string>

namespace sim::calibrate {

namespace {

using enum KernelFamily;

struct Part {
  std::string_view text;  // in lower case; '*' matches any text
  KernelFamily family;
  std::string_view library;
};

const Part parts[] = {
    // DeepEP (deep_ep::intranode::dispatch and the like), NVSHMEM, HybridEP.
    {"deep_ep", all_to_all, "DeepEP"},
    {"deepep", all_to_all, "DeepEP"},
    {"internode::", all_to_all, "DeepEP"},
    {"intranode::", all_to_all, "DeepEP"},
    {"internode_ll::", all_to_all, "DeepEP"},
    {"hybrid_ep", all_to_all, "DeepEP"},
    {"nvshmem*alltoall", all_to_all, "NVSHMEM"},
    {"nvshmem", communication, "NVSHMEM"},
    // NCCL before and since 2.19 (ncclKernel_, ncclDevKernel_), RCCL.
    {"nccl*allreduce", all_reduce, "NCCL"},
    {"nccl*allgather", all_gather, "NCCL"},
    {"nccl*reducescatter", reduce_scatter, "NCCL"},
    {"nccl*reduce_scatter", reduce_scatter, "NCCL"},
    {"nccl*broadcast", broadcast, "NCCL"},
    {"nccl*alltoall", all_to_all, "NCCL"},
    {"nccl*sendrecv", send_receive, "NCCL"},
    {"nccl", communication, "NCCL"},
    {"rccl", communication, "RCCL"},
    {"mscclpp", communication, "MSCCL++"},
    // PyTorch's symmetric memory, vLLM's and TensorRT-LLM's own all-reduce, TransformerEngine's
    // user buffers.
    {"multimem_all_reduce", all_reduce, "PyTorch"},
    {"multimem_one_shot", all_reduce, "PyTorch"},
    {"one_shot_all_reduce", all_reduce, "PyTorch"},
    {"two_shot_all_reduce", all_reduce, "PyTorch"},
    {"cross_device_reduce", all_reduce, "vLLM"},
    {"userbuffers*allgather", all_gather, "TransformerEngine"},
    {"userbuffers*reducescatter", reduce_scatter, "TransformerEngine"},
    {"userbuffers", communication, "TransformerEngine"},
    {"kuserbuffers", communication, "TransformerEngine"},
    // cuDNN's fused attention, flash-attn 1 to 3 and PyTorch's copy of it, FlashMLA, xFormers,
    // Composable Kernel, Triton's tutorial.
    {"cudnn*sdpa*bprop", attention_backward, "cuDNN"},
    {"cudnn*sdpa*bwd", attention_backward, "cuDNN"},
    {"cudnn*sdpa", attention_forward, "cuDNN"},
    {"flash_bwd", attention_backward, "flash-attn"},
    {"flashattnbwd", attention_backward, "flash-attn"},
    {"flash_fwd", attention_forward, "flash-attn"},
    {"flashattnfwd", attention_forward, "flash-attn"},
    {"flash_mla", attention_forward, "FlashMLA"},
    {"flash::", attention_forward, "flash-attn"},
    {"flashattn", attention_forward, "flash-attn"},
    {"fmha_cutlassb", attention_backward, "CUTLASS"},
    {"fmha_cutlassf", attention_forward, "CUTLASS"},
    {"fmha*bwd", attention_backward, ""},
    {"fmha*dgrad", attention_backward, ""},
    {"fmha", attention_forward, ""},
    {"_attn_bwd", attention_backward, "Triton"},
    {"_attn_fwd", attention_forward, "Triton"},
    {"paged_attention", attention_forward, "vLLM"},
    {"sdpa*bwd", attention_backward, "cuDNN"},
    {"sdpa", attention_forward, "cuDNN"},
    {"cudnn::fusion::compute_dot_do_o", attention_backward, "cuDNN"},
    {"cudnn::fusion::convert_dq", attention_backward, "cuDNN"},
    // Kernels launched together with a product.
    {"splitkreduce", gemm_part, "cuBLAS"},
    {"reducesplitk", gemm_part, "cuDNN"},
    {"cublaslt*epilogue", gemm_part, "cuBLAS"},
    {"epilogue::impl", gemm_part, "cuBLAS"},
    {"computeoffsetskernel", gemm_part, "cuDNN"},
    {"nchwtonhwc", gemm_part, "cuDNN"},
    {"nhwctonchw", gemm_part, "cuDNN"},
    {"reduce_wgrad", gemm_part, "cuDNN"},
    {"to_dense_representation", copy, "PyTorch"},
    {"fft2d", gemm_part, "cuDNN"},
    {"scal_kernel", gemm_part, "cuBLAS"},
    // FBGEMM's embedding tables of recommendation models; their names contain "gemm".
    {"split_embedding", embedding, "FBGEMM"},
    {"fbgemm*fp8", elementwise, "FBGEMM"},
    {"fbgemm", routing, "FBGEMM"},
    {"linearize_index", routing, "FBGEMM"},
    {"bounds_check_indices", routing, "FBGEMM"},
    // Optimizers come before elementwise kernels, whose functors are arguments of their names.
    {"adam", optimizer, ""},
    {"adagrad", optimizer, ""},
    {"sgdfunctor", optimizer, ""},
    {"multi_tensor_apply*l2norm", reduction, ""},
    {"multi_tensor_apply*maxnorm", reduction, ""},
    {"multi_tensor_apply*lpnorm", reduction, "PyTorch"},
    {"lpnorm_cleanup", reduction, "PyTorch"},
    // FSDP2 casts and copies lists of shards. Clipping multiplies gradients by a factor in memory.
    {"multi_tensor_apply*copyfunctor", copy, "PyTorch"},
    {"multi_tensor_apply*unaryopfunctor*native::copy<", copy, "PyTorch"},
    {"multi_tensor_apply*binaryopscalartensorfunctor", elementwise, "PyTorch"},
    {"multi_tensor_apply", optimizer, ""},
    // Norms: cuDNN's batch norm, PyTorch, apex, TransformerEngine.
    {"cudnn::bn_", norm, "cuDNN"},
    {"cuapplylayer", norm, "apex"},
    {"cuapplyrms", norm, "apex"},
    {"cucomputegradinput", norm, "apex"},
    {"cucomputepartgrad", norm, "apex"},
    {"cucomputegradgamma", norm, "apex"},
    {"batch_norm", norm, "PyTorch"},
    {"layer_norm", norm, "PyTorch"},
    {"layernorm", norm, "PyTorch"},
    {"gammabeta", norm, "PyTorch"},
    {"rowwisemoments", norm, "PyTorch"},
    {"rmsnorm", norm, "TransformerEngine"},
    {"rms_norm", norm, "PyTorch"},
    {"ln_fwd", norm, "TransformerEngine"},
    {"ln_bwd", norm, "TransformerEngine"},
    {"ln_parallel_residual", norm, ""},
    // Products: cuBLAS and cuBLASLt, CUTLASS, DeepGEMM, Tensile, cuDNN's convolutions.
    {"deep_gemm", gemm, "DeepGEMM"},
    {"fp8_gemm_kernel", gemm, "DeepGEMM"},
    {"nvjet", gemm, "cuBLAS"},
    {"cutlass_cudnn", gemm, "cuDNN"},
    {"scudnn", gemm, "cuDNN"},
    {"implicit_gemm", gemm, "cuDNN"},
    {"convolve", gemm, "cuDNN"},
    {"cutlass*gemm", gemm, "CUTLASS"},
    {"cutlass::kernel", gemm, "CUTLASS"},
    {"cutlass::device_kernel", gemm, "CUTLASS"},
    {"gemm", gemm, "cuBLAS"},
    {"gemv", gemm, "cuBLAS"},
    {"xmma", gemm, "cuBLAS"},
    {"wgmma", gemm, ""},
    {"cijk_", gemm, "Tensile"},
    {"_matmul", gemm, "Triton"},
    {"cutlass", gemm, "CUTLASS"},
    {"cublas", gemm_part, "cuBLAS"},
    // Softmax and losses.
    {"softmax", softmax, ""},
    {"nll_loss", softmax, "PyTorch"},
    {"cross_entropy", softmax, ""},
    // Embedding tables.
    {"embedding", embedding, "PyTorch"},
    {"indexselect", embedding, "PyTorch"},
    {"krn_partial", embedding, "PyTorch"},
    {"compute_num_of_partial_segments", embedding, "PyTorch"},
    {"compute_grad_weight", embedding, "PyTorch"},
    {"sum_and_scatter", embedding, "PyTorch"},
    // Kernels that compilers generate.
    {"triton", fused, "Triton"},
    {"cudacodegen", fused, "nvFuser"},
    {"nvfuser", fused, "nvFuser"},
    {"fused_dropout", elementwise, "PyTorch"},
    {"fused_rope", elementwise, "TransformerEngine"},
    // Sorting and permuting tokens.
    {"radixsort", routing, "CUB"},
    {"bitonicsort", routing, "PyTorch"},
    {"devicescan", routing, "CUB"},
    {"deviceselect", routing, "CUB"},
    {"devicecompact", routing, "CUB"},
    {"reducebykey", routing, "CUB"},
    {"uniquebykey", routing, "CUB"},
    {"topk", routing, ""},
    {"moe_", routing, ""},
    {"permute", routing, ""},
    {"histogram", routing, ""},
    {"searchsorted", routing, "PyTorch"},
    {"scatter_gather", routing, "PyTorch"},
    // Copies and clears. Quantising is a pass over all elements.
    {"memcpy", copy, "CUDA"},
    {"memset", copy, "CUDA"},
    {"catarray", copy, "PyTorch"},
    {"chunk_cat", copy, "PyTorch"},
    {"split_with_sizes_copy", copy, "PyTorch"},
    {"copy_kernel", copy, "PyTorch"},
    {"copy_async", copy, ""},
    {"copydevicetodevice", copy, "HIP"},
    {"fillbuffer", copy, "HIP"},
    {"fillfunctor", copy, "PyTorch"},
    {"index_elementwise", copy, "PyTorch"},
    {"indexfunc", copy, "PyTorch"},
    {"cast_transpose", elementwise, "TransformerEngine"},
    {"transpose", copy, ""},
    // Reductions.
    {"reduce_kernel", reduction, "PyTorch"},
    {"devicereduce", reduction, "CUB"},
    {"reduce_1block", reduction, "cuBLAS"},
    {"dot_kernel", reduction, "cuBLAS"},
    // Elementwise kernels.
    {"gated_act", elementwise, "TransformerEngine"},
    {"unary_kernel", elementwise, "TransformerEngine"},
    {"elementwise", elementwise, "PyTorch"},
    {"vectorized", elementwise, ""},
    {"swiglu", elementwise, ""},
    {"rotary", elementwise, ""},
    {"pool", elementwise, "PyTorch"},
    {"quantize", elementwise, ""},
    {"cast", elementwise, ""},
};

// Whether the parts of the pattern between '*' occur in the text in order.
bool holds(std::string_view text, std::string_view pattern) {
  std::size_t from = 0;
  while (!pattern.empty()) {
    const std::string_view part = pattern.substr(0, pattern.find('*'));
    const std::size_t found = text.find(part, from);
    if (found == std::string_view::npos) return false;
    from = found + part.size();
    pattern.remove_prefix(std::min(pattern.size(), part.size() + 1));
  }
  return true;
}

}  // namespace

std::string_view name(KernelFamily family) {
  static constexpr std::string_view names[kernel_family_count] = {
      "gemm",         "gemm part",  "attention forward", "attention backward",
      "norm",         "softmax",    "elementwise",       "copy",
      "reduction",    "optimizer",  "embedding",         "routing",
      "fused passes", "all-reduce", "all-gather",        "reduce-scatter",
      "broadcast",    "all-to-all", "send-receive",      "communication",
      "other"};
  return names[static_cast<std::size_t>(family)];
}

KernelKind kind_of_kernel(std::string_view kernel) {
  const std::string text = lower(kernel.substr(0, 512));
  for (const Part& part : parts)
    if (holds(text, part.text)) return {part.family, part.library};
  return {};
}

}  // namespace sim::calibrate
