// fp8.h — what is done before a tensor is cast to fp8, so that its scale is known.
//
// Delayed scaling knows it from earlier steps: nothing. Current scaling finds the largest magnitude
// of the tensor: a pass that reads it in 16 bits, unless the kernel that makes it does so on the
// way; ranks whose parts are gathered to one tensor agree on it; a small kernel makes the scale.
//
// [TransformerEngine pytorch/csrc/quantizer.cpp: Float8CurrentScalingQuantizer, and
// csrc/extensions/normalization.cpp: FUSED_NORM_AMAX_FP8; torchao float8/float8_scaling_utils.py
// and float8/float8_tensor_parallel.py]
#pragma once

#include <cstdint>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// A tensor that is about to be cast.
struct Unscaled {
  enum class Parts : std::uint8_t { none, rows, columns };
  std::int64_t bytes = 0;  // of this rank, in 16 bits
  // What the tensor-parallel ranks hold of it: all the same, parts of the sequence, or of the
  // columns.
  Parts parts = Parts::none;
  bool elementwise = false, norm = false;  // which kernel makes it, if that can find the magnitude
  std::int64_t tensors = 1;                // that have a scale each (of experts)
};

bool finds_scales(const Plan& plan);
// Nothing without fp8, or where scales are known.
void find_scale(Writer& w, const Unscaled& tensor);

}  // namespace sim::program
