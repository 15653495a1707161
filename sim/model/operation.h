// operation.h — one kernel of a layer: its shape, the FLOPs it executes and the bytes it moves
// through HBM. No times: device/ turns an operation and a profile into a duration.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "sim/base/units.h"

namespace sim::model {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };

constexpr std::int64_t bytes_of(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
  }
  return 0;
}

enum class OperationKind : std::uint8_t {
  gemm,                // C[m,n] (+)= A[m,k] B[k,n], `batch` of them
  attention_forward,   // fused (flash) attention: never writes the scores
  attention_backward,  // fused, recomputes the scores: 5 products where forward has 2
  norm,                // RMSNorm or LayerNorm, forward or backward
  elementwise,    // activation, residual add, rotary embedding, casts: bound by the bytes they move
  softmax,        // unfused softmax and dropout over scores; work on logits
  copy,           // layout changes, concatenation, clears
  reduction,      // sums and norms that read much and write little
  optimizer,      // multi-tensor Adam over fp32 state
  embedding,      // table lookups and their scattered gradients
  host_copy,      // pinned memory of the CPU to the GPU or back: bytes over PCIe
  pageable_copy,  // ... of memory that is not pinned, down, where the CPU widens it: bytes over
                  // PCIe
  cpu_update,     // Adam on the CPU, or what else draws on its memory: bytes that this carries
};

enum class GemmRole : std::uint8_t { forward, input_gradient, weight_gradient };

struct Operation {
  OperationKind kind = OperationKind::elementwise;
  Precision precision = Precision::bf16;
  std::string_view name;  // static text: "fc1", "attention", "swiglu"
  // GEMM.
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmRole role = GemmRole::forward;
  bool accumulates_fp32 = false;  // weight gradient added into fp32 main_grad
  // Attention: `batch` sequences, query x key scores per head, half of them if causal.
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, query = 0, key = 0;
  bool causal = false;
  std::int64_t window = 0;          // causal: keys that a query attends to; 0: all before it
  std::string_view implementation;  // of fused attention, by a profile's name; "": its first
  // Thread blocks of a kernel where the shape decides how many; 0: as many as there is work for.
  std::int64_t blocks = 0;
  // Executed FLOPs and HBM traffic (compulsory: each operand once).
  double flops = 0;
  Bytes bytes{};

  friend auto operator<=>(const Operation&, const Operation&) = default;
};

Operation gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
               GemmRole role = GemmRole::forward, bool accumulates_fp32 = false,
               Precision precision = Precision::bf16, std::int64_t batch = 1);
Operation attention(std::string_view name, bool backward, std::int64_t batch, std::int64_t heads,
                    std::int64_t kv_heads, std::int64_t head_dim, std::int64_t query,
                    std::int64_t key, bool causal, Precision precision = Precision::bf16,
                    std::int64_t window = 0);
// Keys that a query attends to, the mean over all queries. A window of all keys is as none; queries
// that are fewer than the keys are the last ones.
double mean_keys(const Operation& attention);
// Everything that is bound by memory: one launch that moves `bytes`.
Operation memory_bound(OperationKind kind, std::string_view name, Bytes bytes,
                       std::int64_t blocks = 0);

}  // namespace sim::model
