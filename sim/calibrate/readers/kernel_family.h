// kernel_family.h — classifies a kernel of a trace by its name: what it computes and which library
// it belongs to.
//
// Families are those of the operations that programs issue (model/operation.h; collectives by
// kind), and some that only traces have: parts of products, Triton's fused passes, memory copies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::calibrate {

enum class KernelFamily : std::uint8_t {
  gemm,
  gemm_part,  // launched with a product: split-k sums, epilogues, operand layouts
  attention_forward,
  attention_backward,
  norm,
  softmax,  // also losses over logits
  elementwise,
  copy,  // changes of layout, concatenation, memcpy and memset
  reduction,
  optimizer,
  embedding,
  routing,  // sorts, scans, top-k, permutations of tokens
  fused,    // several passes fused by a compiler: Triton, nvFuser
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,  // also dispatch and combine of experts
  send_receive,
  communication,  // a collective whose name does not give its kind
  other,
  count_,
};
constexpr int kernel_family_count = static_cast<int>(KernelFamily::count_);
std::string_view name(KernelFamily family);

constexpr bool communicates(KernelFamily family) {
  return family >= KernelFamily::all_reduce && family <= KernelFamily::communication;
}
// Bound by memory. Compilers and libraries replace one such kernel by others.
constexpr bool passes_over_memory(KernelFamily family) {
  return family >= KernelFamily::norm && family <= KernelFamily::fused;
}

struct KernelKind {
  KernelFamily family = KernelFamily::other;
  std::string_view library;  // "NCCL", "DeepEP", "cuDNN", "flash-attn", "Triton"; "" if unknown
};

// The first row of the table that matches the name. Collectives come first: a collective that also
// adds stays a collective.
KernelKind kind_of_kernel(std::string_view kernel);
inline KernelFamily family_of(std::string_view kernel) {
  return kind_of_kernel(kernel).family;
}

// Names of kernels for a table: functions without namespaces, parameters and template arguments.
// Two equal names also have the names of their template arguments. Names that are still equal stay
// whole.
std::vector<std::string> short_names(const std::vector<std::string>& kernels);

}  // namespace sim::calibrate
