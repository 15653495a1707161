// linear.h — the products of a layer that have weights, split over the tensor-parallel ranks:
// forward, backward and, where the schedule wants it apart, the weight gradient.
//
//     column-parallel   norm, gather over the sequence, product      weight split by its rows
//     row-parallel      product, reduce over the ranks               weight split by its columns
//
// They are TransformerEngine's LayerNormLinear and Linear with gradient accumulation fused into the
// weight-gradient product. Policies that they carry out: operands in fp8 (delayed scaling), frozen
// weights with an adapter beside them, weight gradients in a pass of their own.
// [TransformerEngine 1.9 module/layernorm_linear.py, module/linear.py; INVENTORY.md sections 1, 4,
// 16 and 17]
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// A weight [out, in] of this rank. Its parameters are called module + ".weight" and so on.
struct Linear {
  Module module;
  std::string_view name;  // of its products
  std::int64_t in, out;
  std::string_view weight, bias, norm, norm_bias;
  bool has_bias;
  // Widths of the products that make the output, in order; their sum is `out`. One, but where the
  // plan has separate products: query, key and value, gate and up.
  std::array<std::int64_t, 3> parts{};
  std::size_t part_count = 0;
  std::span<const std::int64_t> widths() const { return std::span(parts).first(part_count); }
};
Linear linear(const Rank& rank, Module module);
ParameterList linear_parameters(const Rank& rank, Module module);

// From the residual stream to the product's output. Where no norm of its own is in front, `given`
// is what the product reads: the other half's norm output, or the stream itself.
Value column_parallel(Writer& w, const Linear& linear, Value given, std::string_view label,
                      Category category);
// To the sum over the ranks, this rank's rows of it. `input` is in 16 bits, for an adapter;
// `operand` is what the product reads: the same, or its cast. `gradient` is the label of the
// gradient of the input.
Value row_parallel(Writer& w, const Linear& linear, Value input, Value operand,
                   std::string_view gradient);

// The gradients of a norm's weights join their parameters'.
void norm_gradients(Writer& w, Value weight, Value bias, std::string_view weight_name,
                    std::string_view bias_name);

}  // namespace sim::program
