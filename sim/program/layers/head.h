// head.h — steps shared by the two output layers: on one stage, or split over all stages.
//
// head.cpp writes the output layer of one stage. vocabulary.cpp and rows.cpp write the layers that
// are split over all stages (vocabulary.h). All of them call the functions below.
#pragma once

#include "sim/program/layers/linear/norm.h"

namespace sim::program {

// A product of the output layer, always in the model's precision (never fp8). The weight gradient
// accumulates into main_grad.
void head_product(Writer& w, std::int64_t m, std::int64_t n, std::int64_t k, model::GemmRole role,
                  std::uint8_t flags);
// PyTorch's cuBLAS workspace of one thread, allocated at its first use.
void blas_workspace(Writer& w, FixedSlot slot, std::string_view label);
// With sequence parallelism: all-gathers the input into Megatron-LM's global buffer.
void gather_head_input(Writer& w);
// Backward pass of the final norm, where the gradient of the residual stream begins. `residual`:
// the input that the norm saved.
Gradients final_norm_back(Writer& w, Gradients gradients, const Normed& norm, Value residual);

// Loads a field of the batch into its frame slot (batch.cpp).
void read_ids(Writer& w);
void read_labels(Writer& w);

// embedding.cpp: table_gradient makes the gradient of a table of `rows` rows from the gradients of
// the tokens. table_hook adds it to main_grad.
Value table_gradient(Writer& w, std::int64_t rows, std::string_view label);
void table_hook(Writer& w, Value made, std::int64_t rows, std::string_view parameter);

}  // namespace sim::program
