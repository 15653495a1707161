// kernel_family.cpp — parts of the names of kernels. Sources: traces of the libraries that are
// named.
#include "sim/calibrate/readers/kernel_family.h"

#include <array>
#include <string>

namespace sim::calibrate {

namespace {

struct Part {
  std::string_view text;  // in lower case
  KernelFamily family;
};
constexpr std::array parts{
    // NCCL and RCCL, NVSHMEM, DeepEP (its kernels are deep_ep::intranode::dispatch and the like),
    // MSCCL++, PyTorch's symmetric memory, vLLM's and TensorRT-LLM's own all-reduce.
    Part{"nccl", KernelFamily::communication},
    Part{"rccl", KernelFamily::communication},
    Part{"nvshmem", KernelFamily::communication},
    Part{"deep_ep::", KernelFamily::communication},
    Part{"deepep", KernelFamily::communication},
    Part{"internode::", KernelFamily::communication},
    Part{"intranode::", KernelFamily::communication},
    Part{"internode_ll::", KernelFamily::communication},
    Part{"hybrid_ep", KernelFamily::communication},
    Part{"mscclpp", KernelFamily::communication},
    Part{"multimem_all_reduce", KernelFamily::communication},
    Part{"one_shot_all_reduce", KernelFamily::communication},
    Part{"two_shot_all_reduce", KernelFamily::communication},
    Part{"cross_device_reduce", KernelFamily::communication},
    Part{"userbuffers", KernelFamily::communication},
    // flash-attn 1 to 3, FlashMLA, cuDNN's fused attention, xFormers.
    Part{"flash_fwd", KernelFamily::attention},
    Part{"flash_bwd", KernelFamily::attention},
    Part{"flash::", KernelFamily::attention},
    Part{"flashattn", KernelFamily::attention},
    Part{"flash_mla", KernelFamily::attention},
    Part{"fmha", KernelFamily::attention},
    Part{"sdpa", KernelFamily::attention},
    Part{"_attn_fwd", KernelFamily::attention},
    Part{"_attn_bwd", KernelFamily::attention},
    Part{"paged_attention", KernelFamily::attention},
    // cuBLAS, CUTLASS, DeepGEMM, cuDNN's convolutions.
    Part{"gemm", KernelFamily::product},
    Part{"nvjet", KernelFamily::product},
    Part{"cutlass", KernelFamily::product},
    Part{"xmma", KernelFamily::product},
    Part{"wgmma", KernelFamily::product},
    Part{"gemv", KernelFamily::product},
    Part{"splitkreduce", KernelFamily::product},
    Part{"scudnn", KernelFamily::product},
    Part{"cudnn", KernelFamily::product},
    Part{"convolve", KernelFamily::product},
    Part{"_matmul", KernelFamily::product},
    // What torch.compile and people write.
    Part{"triton_", KernelFamily::triton},
    Part{"triton", KernelFamily::triton},
    // Element by element, norms, reductions, copies.
    Part{"elementwise", KernelFamily::memory},
    Part{"vectorized", KernelFamily::memory},
    Part{"layer_norm", KernelFamily::memory},
    Part{"rmsnorm", KernelFamily::memory},
    Part{"ln_fwd", KernelFamily::memory},
    Part{"ln_bwd", KernelFamily::memory},
    Part{"reduce_kernel", KernelFamily::memory},
    Part{"softmax", KernelFamily::memory},
    Part{"catarray", KernelFamily::memory},
    Part{"multi_tensor", KernelFamily::memory},
    Part{"copy", KernelFamily::memory},
    Part{"cast", KernelFamily::memory},
    Part{"fill", KernelFamily::memory},
    Part{"embedding", KernelFamily::memory},
    Part{"index", KernelFamily::memory},
};

}  // namespace

std::string_view name(KernelFamily family) {
  switch (family) {
    case KernelFamily::communication:
      return "communication";
    case KernelFamily::attention:
      return "attention";
    case KernelFamily::product:
      return "products";
    case KernelFamily::triton:
      return "Triton";
    case KernelFamily::memory:
      return "memory-bound";
    case KernelFamily::other:
      return "others";
  }
  return "";
}

KernelFamily family_of(std::string_view kernel) {
  std::string text(kernel.substr(0, 512));
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const Part& part : parts)
    if (text.find(part.text) != std::string::npos) return part.family;
  return KernelFamily::other;
}

}  // namespace sim::calibrate
