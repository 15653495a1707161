// lora.h — the two products of a low-rank adapter (LoRA), split over the tensor-parallel ranks.
//
// The product becomes W x + s B A x, with s = alpha / r, A [r, k] and B [n, r] (Hu et al.,
// arXiv:2106.09685). Only A and B are trained. The split is that of NeMo and Megatron-Bridge (peft:
// ParallelLinearAdapter). column_parallel and row_parallel call adapter_forward.
//
//     column-parallel   a = A x [T, r/t], gathered [T, r]; b = B a [T, n/t]; out + s b
//     row-parallel      a = A x [T, r], reduced;           b = B a [T, h/t], gathered [T, h], this
//                       rank's rows of it; out + s b
//     all-to-all        the same, but b's columns are traded for this rank's rows [T/t, h]
//                       (sequence parallelism; NeMo parallel_adapters.py: all2all_hp2sp)
//
// With dropout, A reads a copy of x of its own.
//
// T is the number of tokens, n and h the width of the output. INVENTORY.md section 17 lists every
// tensor.
#pragma once

#include <string>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

struct AdapterShape {
  bool column;            // extends a column-parallel product; else a row-parallel one
  std::int64_t in, out;   // width of the product's input and output on this rank
  std::int64_t rank;      // r, not split
  std::int64_t inner;     // rows of A on this rank: r / t for a column-parallel product
  std::int64_t up_width;  // rows of B on this rank
  std::int64_t down() const { return inner * in; }     // elements of A
  std::int64_t up() const { return up_width * rank; }  // elements of B
};

AdapterShape adapter_shape(const Rank& rank, Module module);

// Tensors that an adapter saves for its backward pass. `input` 0: the product has no adapter.
struct Adapter {
  Module module = Module::qkv;
  Value input = 0, narrow = 0;
  Value dropped = 0, mask = 0;  // the input after dropout, and its mask; 0: no dropout

  explicit operator bool() const { return input != 0; }
  Value read() const { return dropped != 0 ? dropped : input; }
  bool keeps_input() const { return input != 0 && dropped == 0; }
  // Returns the gradient of the adapter's input. Runs before the nodes of the product, which adds
  // it to its own input gradient. A row-parallel product drops `input` itself afterwards, if the
  // adapter keeps it.
  Value backward(Writer& w) const;
};
// Adds the adapter's output to `out`, which becomes the sum.
Adapter adapter_forward(Writer& w, Module module, Value input, Value& out);

}  // namespace sim::program
