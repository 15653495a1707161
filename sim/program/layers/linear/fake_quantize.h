// fake_quantize.h — quantisation-aware training: in front of each product of a layer its weight, or
// both operands, are rounded to a narrow grid and back, a kernel each. The product reads and saves
// what was rounded: a weight is a tensor of its own for each microbatch under way.
//
//     forward    round input, round weight, (gather), product
//     backward   products; the weight's gradient, then the input's, go straight through, or are
//                masked by what was rounded, which is kept for that (fake_quantization_clips)
//
// Grids are calibrated before the run; nothing is measured in a step. The head, norms and attention
// stay as they are.
//
// [NVIDIA Model Optimizer modelopt/torch/quantization: plugins/megatron.py, plugins/custom.py,
// nn/modules/quant_linear.py:_QuantLinear.quantized_linear_fn, tensor_quant.py; INVENTORY.md
// section 33]
#pragma once

#include <vector>

#include "sim/program/layers/linear/linear.h"

namespace sim::program {

// What a product reads in place of its operands; 0: the operand itself.
struct Rounded {
  Value input = 0, weight = 0;
  Value given = 0;  // the input before, where gradients are clipped by it
};
// `bytes` of the input, which the caller names. What is made is saved, and is the caller's to drop.
Rounded round_operands(Writer& w, const Linear& l, Value input, std::int64_t bytes);
// The gradients behind a product: of its weight, and of its input.
Value through_weight(Writer& w, const Linear& l, Value gradient);
Value through_input(Writer& w, const Rounded& rounded, Value gradient, std::int64_t bytes);

std::vector<Problem> fake_quantization_problems(const Plan& plan);

}  // namespace sim::program
