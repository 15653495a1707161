// norm.h — RMSNorm and LayerNorm over the residual stream: tensors and kernels, both directions.
//
// Layers, embedding and head call it. The kernels are TransformerEngine's fused ones or PyTorch's
// operators (StackPlan::layer_kernels).
//
// [TransformerEngine 1.9 normalization.cu; PyTorch 2.1 layer_norm_kernel.cu]
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Tensors that a norm makes: output, and per-token statistics in fp32. RMSNorm has no `mu`.
struct Normed {
  Value output, rsigma, mu;
};
// `bytes` and `label` are of the output, which the caller holds. The statistics are saved.
// `workspace`: allocates the kernel's workspace.
Normed norm_forward(Writer& w, std::int64_t bytes, std::string_view label, bool workspace);
// The same, into a tensor that the caller allocated.
Normed norm_into(Writer& w, Value output, std::int64_t bytes, bool workspace);

// Gradients of the norm's weight and bias; 0 for parameters that the model's norms do not have.
struct NormGradients {
  Value weight, bias;
};
// Backward pass. The caller has allocated the gradient of the input. `gradient`, of the output, is
// dropped.
NormGradients norm_backward(Writer& w, Value gradient);

}  // namespace sim::program
