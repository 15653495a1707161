// linear_gradients.h — shared steps of the backward passes of tensor-parallel products.
//
// Called by the nodes of column_parallel.cpp and row_parallel.cpp. INVENTORY.md section 4 lists the
// tensors with their sources [TransformerEngine 1.9 module/layernorm_linear.py, module/linear.py].
#pragma once

#include <cstdint>

#include "sim/program/layers/linear/linear.h"

namespace sim::program {

// All-gather over the sequence: returns a new tensor of `bytes` bytes. `sent` is the message size
// of the all-gather, in bytes.
Value gather_rows(Writer& w, std::string_view label, std::int64_t bytes, std::int64_t sent);
// The gradient of a product's output, `width` columns wide, in fp8: cast, and cast transposed.
// Returns 0 if products are in 16 bits. `bytes`: bytes of the 16-bit gradient.
Value quantise(Writer& w, std::int64_t width, std::int64_t bytes);
// The products for the input gradient. The caller has allocated their output.
void input_gradient(Writer& w, const Linear& l, std::uint8_t flags);
// The product for the weight gradient, into fp32 main_grad; the first microbatch overwrites it. In
// fp8 both operands are transposed: the input here, the gradient by quantise() (`quantised`).
void weight_gradient(Writer& w, const Linear& l, Value quantised, std::uint8_t flags = 0);
// The weight gradient that autograd receives: uninitialised with fused gradient accumulation, else
// the real one.
Value make_handle(Writer& w, const Linear& l);
// The gradient hook of a weight: offers the gradient to data parallelism; if it is not taken, adds
// it to main_grad and frees it.
void hook(Writer& w, const Linear& l, Value handle);
// make_handle and hook, for a weight with a finished gradient.
void hand_over(Writer& w, const Linear& l);
void bias_gradient(Writer& w, const Linear& l);
// Adds the `bytes` bytes of an adapter's input gradient to the product's.
void add_adapter(Writer& w, Value gradient, std::int64_t bytes);

}  // namespace sim::program
