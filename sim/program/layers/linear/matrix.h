// matrix.h — products with weights outside the tensor-parallel modules.
//
// Callers: the router and the experts (layers/experts), and the narrow products of latent attention
// (latent.cpp). A Matrix has one weight, or one weight per local expert. The products of several
// weights run as one group: TransformerEngine's GroupedLinear, or the package grouped_gemm, which
// stores all weights in one tensor.
//
// [TransformerEngine 1.9 module/grouped_linear.py: _GroupedLinear; module/linear.py;
// fanshiqing/grouped_gemm v1.1.2 grouped_gemm/ops.py: GroupedGemm, csrc/grouped_gemm.cu:
// CublasGroupedGemm, CublasGroupedGemmVariableK: products by cuBLAS on four streams, none sums into
// its output]
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// `count` weights [out, in]. Each multiplies an equal share of the rows.
struct Matrix {
  std::string_view name, parameter;
  std::int64_t in, out, count = 1;
  bool grouped = true;
  bool narrow = false;  // never in fp8
  std::string_view bias = "";
  bool legacy = false;  // uses the package grouped_gemm
};

// Forward product of `rows` rows. The caller has allocated the output.
void multiply(Writer& w, const Matrix& m, std::int64_t rows);
// Saves the operands of the weight gradient, and drops them after it. Does nothing if only adapters
// are trained.
void save_operands(Writer& w, std::initializer_list<Value> values);
void drop_operands(Writer& w, std::initializer_list<Value> values);
// The two backward products, with the casts to fp8. Frozen weights have no weight gradient.
void input_gradient(Writer& w, const Matrix& m, std::int64_t rows);
// Returns the gradient tensor, or 0 if the product accumulates into main_grad.
Value weight_gradient(Writer& w, const Matrix& m, std::int64_t rows);
// Hands the weight gradients to data parallelism. `made`: the result of weight_gradient.
// REQUIRES: the gradients are computed.
void hand_over(Writer& w, const Matrix& m, Value made = 0);
// The same for the gradient of a vector, such as a bias or a norm's weight. With whole parameters
// it is added where it is computed, without a tensor of its own.
void hand_over(Writer& w, std::string_view parameter, std::int64_t elements,
               std::string_view label);
// Returns the gradient of the output in fp8: cast, and cast transposed. 0 without fp8.
Value quantise(Writer& w, const Matrix& m, std::int64_t rows);

}  // namespace sim::program
