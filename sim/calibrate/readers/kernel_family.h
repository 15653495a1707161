// kernel_family.h — what a kernel of a trace is for, and whose it is, by its name.
//
// Families are those of the operations that programs issue (model/operation.h, collectives by kind)
// and what only traces have: parts of products, Triton's fused passes, memory copies.
#pragma once

#include <cstdint>
#include <string_view>

namespace sim::calibrate {

enum class KernelFamily : std::uint8_t {
  gemm,
  gemm_part,  // sums of slices of k, epilogues, layouts of operands: beside a product
  attention_forward,
  attention_backward,
  norm,
  softmax,  // and losses over logits
  elementwise,
  copy,  // layouts, concatenation, clears, memcpy and memset
  reduction,
  optimizer,
  embedding,
  routing,  // sorts, scans, top-k, permutations of tokens
  fused,    // what a compiler fused of passes: Triton, nvFuser
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,  // also dispatch and combine of experts
  send_receive,
  communication,  // of no kind that its name says
  other,
  count_,
};
constexpr int kernel_family_count = static_cast<int>(KernelFamily::count_);
std::string_view name(KernelFamily family);

constexpr bool communicates(KernelFamily family) {
  return family >= KernelFamily::all_reduce && family <= KernelFamily::communication;
}
// Bound by memory: one of these may stand for another that a compiler or a library made of it.
constexpr bool passes_over_memory(KernelFamily family) {
  return family >= KernelFamily::norm && family <= KernelFamily::fused;
}

struct KernelKind {
  KernelFamily family = KernelFamily::other;
  std::string_view library;  // "NCCL", "DeepEP", "cuDNN", "flash-attn", "Triton"; "" if unknown
};

// The first row of the table that the name has; communication first: a collective that also adds
// is one.
KernelKind kind_of_kernel(std::string_view kernel);
inline KernelFamily family_of(std::string_view kernel) {
  return kind_of_kernel(kernel).family;
}

}  // namespace sim::calibrate
