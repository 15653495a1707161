// linear_gradients.h — what the ways back of a column-parallel and of a row-parallel product share.
#pragma once

#include <cstdint>

#include "sim/program/layers/linear/linear.h"

namespace sim::program {

// All rows of a tensor of which each rank has its sequences' part: a new tensor of so many bytes,
// of which so many are sent.
Value gather_rows(Writer& w, std::string_view label, std::int64_t bytes, std::int64_t sent);
// The gradient of a product's output of this width, cast and cast transposed, until its last use; 0
// where products are in 16 bits. `bytes`: of the gradient that is read.
Value quantise(Writer& w, std::int64_t width, std::int64_t bytes);
// The products that make the input's gradient, into a tensor that the caller has made.
void input_gradient(Writer& w, const Linear& l, std::uint8_t flags);
// Into fp32 main_grad, which the first microbatch overwrites. In fp8 both operands are wanted along
// the tokens: the input is transposed, `quantised` is the gradient.
void weight_gradient(Writer& w, const Linear& l, Value quantised, std::uint8_t flags = 0);
// The uninitialised (or, without fused accumulation, the real) gradient of a weight that autograd
// is handed.
Value make_handle(Writer& w, const Linear& l);
// The hook of a weight: without shards its gradient is added to main_grad and gone.
void hook(Writer& w, const Linear& l, Value handle);
// Both, of a weight whose gradient is there.
void hand_over(Writer& w, const Linear& l);
void bias_gradient(Writer& w, const Linear& l);
void add_adapter(Writer& w, Value gradient, std::int64_t bytes);

}  // namespace sim::program
