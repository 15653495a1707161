// linear.h — the tensor-parallel matrix products of a layer: forward, backward, weight gradient.
//
//     column-parallel   norm, gather over the sequence, product      weight split by its rows
//     row-parallel      product, reduce over the ranks               weight split by its columns
//
// Attention and MLP call column_parallel for qkv and fc1, and row_parallel for the projection and
// fc2. The weight [out, in] is this rank's part.
//
// The modules are TransformerEngine's LayerNormLinear and Linear, with gradient accumulation fused
// into the weight-gradient product. They support fp8 operands, frozen weights with a LoRA adapter,
// and weight gradients in a separate pass (zero-bubble schedules).
//
// [TransformerEngine 1.9 module/layernorm_linear.py, module/linear.py; INVENTORY.md sections 1, 4,
// 16 and 17]
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// A weight [out, in] of this rank, and the names of its parameters ("qkv.weight", ...).
struct Linear {
  Module module;
  std::string_view name;  // name of its products
  std::int64_t in, out;
  std::string_view weight, bias, norm, norm_bias;
  bool has_bias;
  // Widths of the products that make the output, in order; their sum is `out`. One product, unless
  // the plan has separate ones (StackPlan::separate_products): q, k and v; gate and up.
  std::array<std::int64_t, 3> parts{};
  std::size_t part_count = 0;
  std::span<const std::int64_t> widths() const { return std::span(parts).first(part_count); }
};
// The weight of one module of the plan, and its parameters.
Linear linear(const Rank& rank, Module module);
ParameterList linear_parameters(const Rank& rank, Module module);

// Returns the output of norm and product. `given`: the input of the product, if it has no norm of
// its own: the norm output of the other half, or the residual stream; else 0. `label` and
// `category` are of the output.
Value column_parallel(Writer& w, const Linear& linear, Value given, std::string_view label,
                      Category category);
// Returns the output summed over the ranks: this rank's rows of it. `operand` is the tensor that
// the product reads: `input` itself, or its cast to fp8. An adapter reads `input`, in 16 bits.
// `gradient` is the label of the gradient of the input.
Value row_parallel(Writer& w, const Linear& linear, Value input, Value operand,
                   std::string_view gradient);

// Hands the weight and bias gradients of a norm to data parallelism.
void norm_gradients(Writer& w, Value weight, Value bias, std::string_view weight_name,
                    std::string_view bias_name);

}  // namespace sim::program
