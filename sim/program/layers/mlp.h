// mlp.h — the dense MLP of a layer: norm, fc1, activation, fc2, reduction over the ranks.
//
// layer.cpp calls it for the second half of a layer without experts. With SwiGLU, fc1 has two
// halves (gate and up). INVENTORY.md sections 1 and 4 list every tensor with its source.
// [TransformerEngine module/layernorm_linear.py, module/linear.py; Megatron-LM
// core/transformer/mlp.py]
#pragma once

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Returns fc2's output, summed over the tensor-parallel ranks. `given`: the input, if the MLP has
// no norm of its own; else 0, and the MLP reads the residual stream.
Value mlp(Writer& w, Value given);

}  // namespace sim::program
