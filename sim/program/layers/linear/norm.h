// norm.h — RMSNorm and LayerNorm over the residual stream: tensors and kernels of both directions,
// TransformerEngine's fused ones or PyTorch's own.
//
// [TransformerEngine 1.9 normalization.cu; PyTorch 2.1 layer_norm_kernel.cu]
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// What a norm makes; `mu` of layer norms only.
struct Normed {
  Value output, rsigma, mu;
};
// `bytes` of the output, under this label. The caller names the output; the statistics are saved.
Normed norm_forward(Writer& w, std::int64_t bytes, std::string_view label, bool workspace);
// The same into a tensor that the caller made.
Normed norm_into(Writer& w, Value output, std::int64_t bytes, bool workspace);

// Of what the model's norms have.
struct NormGradients {
  Value weight, bias;
};
// The caller has made the gradient of the input. The gradient that came is dropped.
NormGradients norm_backward(Writer& w, Value gradient);

}  // namespace sim::program
