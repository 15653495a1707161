// head.h — steps that the output layer has in common whether one stage has all of it or each stage
// a share.
#pragma once

#include "sim/program/layers/linear/norm.h"

namespace sim::program {

// A product of the output layer in the model's own precision; its weight adds into main_grad.
void head_product(Writer& w, std::int64_t m, std::int64_t n, std::int64_t k, model::GemmRole role,
                  std::uint8_t flags);
// PyTorch's cuBLAS workspace of a thread, where this is its first use.
void blas_workspace(Writer& w, FixedSlot slot, std::string_view label);
// Sequence parallelism: the whole input, in a buffer that stays.
void gather_head_input(Writer& w);
// The gradient stream begins here; the last residual was saved by the final norm.
Gradients final_norm_back(Writer& w, Gradients gradients, const Normed& norm, Value residual);

// Fields of a batch (batch.cpp) in the frame's slots.
void read_ids(Writer& w);
void read_labels(Writer& w);

// Adds the rows of a gradient into a new gradient of a table of `rows` rows, and that to main_grad
// (embedding.cpp).
Value table_gradient(Writer& w, std::int64_t rows, std::string_view label);
void table_hook(Writer& w, Value made, std::int64_t rows, std::string_view parameter);

}  // namespace sim::program
