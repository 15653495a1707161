// lora.h — the two products of a low-rank adapter: W x + (alpha / r) B A x with A [r, k], B [n, r]
// (Hu et al., arXiv:2106.09685), split over the tensor-parallel ranks as NeMo and Megatron-Bridge
// split them (peft: ParallelLinearAdapter):
//
//     column-parallel   a = A x [T, r/t], gathered [T, r]; b = B a [T, n/t]; out + s b
//     row-parallel      a = A x [T, r], reduced;           b = B a [T, h/t], gathered [T, h], this
//                       rank's rows of it; out + s b
//     all-to-all        the same, but b's columns are traded for this rank's rows [T/t, h]
//                       (sequence parallelism; NeMo parallel_adapters.py: all2all_hp2sp)
//
// INVENTORY.md section 17 has a line per tensor.
#pragma once

#include <string>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

struct AdapterShape {
  bool column;            // beside a column-parallel product
  std::int64_t in, out;   // width of the product's input and output on this rank
  std::int64_t rank;      // r, whole
  std::int64_t inner;     // rows of A here: r / t beside a column-parallel product
  std::int64_t up_width;  // rows of B here
  std::int64_t down() const { return inner * in; }
  std::int64_t up() const { return up_width * rank; }
};

AdapterShape adapter_shape(const Rank& rank, Module module);

// What an adapter leaves for its way back; empty where there is none.
struct Adapter {
  Module module = Module::qkv;
  Value input = 0, narrow = 0;

  explicit operator bool() const { return input != 0; }
  // Runs before the nodes of the product beside it: the gradient of the adapter's input, which the
  // product adds to its own. A row-parallel product drops the input itself, when that is done.
  Value backward(Writer& w) const;
};
// Adds to the product's output, whose name goes to the sum.
Adapter adapter_forward(Writer& w, Module module, Value input, Value& out);

}  // namespace sim::program
