// operation.h — one kernel of a layer: its shape, its executed FLOPs and its HBM traffic in bytes.
//
// The room `program` makes operations for each layer. `cluster/device` turns an operation and a
// profile into a duration. An operation never contains a time.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "sim/base/units.h"

namespace sim::model {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4 };

constexpr std::int64_t bytes_of(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
    case Precision::fp4:  // with its scales between a half and one byte
      return 1;
  }
  return 0;
}

enum class OperationKind : std::uint8_t {
  gemm,                // `batch` products C[m,n] (+)= A[m,k] B[k,n]
  attention_forward,   // fused (flash) attention: the scores never reach HBM
  attention_backward,  // fused; recomputes the scores: 5 products, the forward pass has 2
  norm,                // RMSNorm or LayerNorm, forward or backward
  elementwise,         // activation, residual add, rotary embedding, casts
  softmax,             // unfused softmax and dropout over scores; cross entropy over logits
  copy,                // layout changes, concatenation, memset
  reduction,           // sums and gradient norms: large input, small output
  optimizer,           // multi-tensor Adam over fp32 state
  embedding,           // table lookups and their scattered gradients
  host_copy,           // copy between pinned CPU memory and the GPU; bytes over PCIe
  pageable_copy,       // copy from the GPU to pageable CPU memory; bytes over PCIe.
                       // The CPU widens the values to fp32.
  cpu_update,          // Adam on the CPU and other work bound by CPU memory; bytes of CPU memory
};

enum class GemmRole : std::uint8_t { forward, input_gradient, weight_gradient };

// The shape of one kernel launch. Fields that its kind does not use keep their defaults.
struct Operation {
  OperationKind kind = OperationKind::elementwise;
  Precision precision = Precision::bf16;
  std::string_view name;  // refers to static text: "fc1", "attention", "swiglu"
  // GEMM: C[m,n] = A[m,k] B[k,n], `batch` times.
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmRole role = GemmRole::forward;
  bool accumulates_fp32 = false;  // weight gradient added into fp32 main_grad
  // Attention: `batch` sequences with query x key scores per head; a causal mask drops half.
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, query = 0, key = 0;
  bool causal = false;
  std::int64_t window = 0;          // causal: keys that a query attends to; 0: all before it
  std::string_view implementation;  // attention kernel by its name in the profile; "": the first
  // SMs that a collective beside it holds. They compute nothing of it.
  int sms_taken = 0;
  // Thread blocks, if the shape of the kernel fixes their number; 0: as many as the work needs.
  std::int64_t blocks = 0;
  // Executed FLOPs, and compulsory HBM traffic: each operand counts once.
  double flops = 0;
  Bytes bytes{};

  friend auto operator<=>(const Operation&, const Operation&) = default;
};

// A product: 2 m n k batch FLOPs; each operand is read once, the result is written once. With
// accumulates_fp32 the fp32 result is read and written. REQUIRES: all sizes > 0.
Operation gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
               GemmRole role = GemmRole::forward, bool accumulates_fp32 = false,
               Precision precision = Precision::bf16, std::int64_t batch = 1);
// Fused attention. Forward reads q, k, v and writes the output; backward reads these and the output
// gradient and writes three gradients. REQUIRES: all sizes > 0.
Operation attention(std::string_view name, bool backward, std::int64_t batch, std::int64_t heads,
                    std::int64_t kv_heads, std::int64_t head_dim, std::int64_t query,
                    std::int64_t key, bool causal, Precision precision = Precision::bf16,
                    std::int64_t window = 0);
// The mean number of keys that a query attends to. With fewer queries than keys, the queries are
// the last tokens of the sequence.
double mean_keys(const Operation& attention);
// One launch of a memory-bound kernel that moves `bytes`. `blocks`: see Operation::blocks.
Operation memory_bound(OperationKind kind, std::string_view name, Bytes bytes,
                       std::int64_t blocks = 0);

}  // namespace sim::model
