// fp8.h — the kernels and collectives that find the scale of a tensor before its cast to fp8.
//
// Delayed scaling takes the scale from earlier steps: no work. Current scaling (recipe
// `tensorwise`) needs the largest magnitude (amax) of the tensor:
//
//     1. A kernel reads the tensor in 16 bits, unless the kernel that made the tensor found amax.
//     2. Ranks that hold parts of one tensor all-reduce amax.
//     3. A small kernel turns amax into the scale.
//
// The products of sim/program/layers call find_scale before each cast. Values are never computed.
//
// [TransformerEngine pytorch/csrc/quantizer.cpp: Float8CurrentScalingQuantizer, and
// csrc/extensions/normalization.cpp: FUSED_NORM_AMAX_FP8; torchao float8/float8_scaling_utils.py
// and float8/float8_tensor_parallel.py]
#pragma once

#include <cstdint>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// A tensor before its cast.
struct Unscaled {
  enum class Parts : std::uint8_t { none, rows, columns };
  std::int64_t bytes = 0;  // bytes on this rank, in 16 bits
  // How the tensor is split over the tensor-parallel ranks: not at all (each rank has the same), by
  // tokens, or by columns.
  Parts parts = Parts::none;
  bool elementwise = false, norm = false;  // kind of the kernel that makes the tensor
  std::int64_t tensors = 1;                // number of tensors with a scale each (experts)
};

// Whether the plan computes scales in the step: fp8 with current scaling.
bool finds_scales(const Plan& plan);
// Writes the three steps above. Writes nothing if finds_scales() is false.
void find_scale(Writer& w, const Unscaled& tensor);

}  // namespace sim::program
