// fake_quantize.h — quantisation-aware training: operands are rounded to a narrow grid and back.
//
// Before each product of a layer one kernel rounds the weight, or one kernel each rounds weight and
// input. The product reads and saves the rounded tensors. Each microbatch in flight therefore holds
// its own copy of the weight. column_parallel and row_parallel call these functions.
//
//     forward    round input, round weight, (gather), product
//     backward   products; the gradients of weight and input pass straight through, or are masked
//                by the tensor before rounding, which is saved (fake_quantization_clips)
//
// The grid is calibrated before the run, so a step contains no measurement. Head, norms and
// attention are not quantised.
//
// [NVIDIA Model Optimizer modelopt/torch/quantization: plugins/megatron.py, plugins/custom.py,
// nn/modules/quant_linear.py:_QuantLinear.quantized_linear_fn, tensor_quant.py; INVENTORY.md
// section 33]
#pragma once

#include <vector>

#include "sim/program/layers/linear/linear.h"

namespace sim::program {

// The rounded operands of a product; 0: the operand is not rounded.
struct Rounded {
  Value input = 0, weight = 0;
  Value given = 0;  // the input before rounding, if gradients are clipped by it
};
// `bytes`: bytes of `input`, which the caller holds. New tensors are saved; the caller drops them.
Rounded round_operands(Writer& w, const Linear& l, Value input, std::int64_t bytes);
// Backward pass of the rounding of the weight, and of the input.
Value through_weight(Writer& w, const Linear& l, Value gradient);
Value through_input(Writer& w, const Rounded& rounded, Value gradient, std::int64_t bytes);

}  // namespace sim::program
