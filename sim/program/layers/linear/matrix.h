// matrix.h — products with weights that no tensor parallelism wraps: the router's, the experts',
// the narrow ones of latent attention. One weight, or one for each local expert, whose products run
// as one group (TransformerEngine's GroupedLinear, or the package grouped_gemm, whose weights are
// one tensor).
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

// `count` weights [out, in], each for an even share of the rows.
struct Matrix {
  std::string_view name, parameter;
  std::int64_t in, out, count = 1;
  bool grouped = true;
  bool narrow = false;  // never in fp8
  std::string_view bias = "";
  bool legacy = false;  // the package grouped_gemm
};

void multiply(Writer& w, const Matrix& m, std::int64_t rows);
// What weight gradients read: saved, and dropped behind them, unless adapters alone are trained.
void save_operands(Writer& w, std::initializer_list<Value> values);
void drop_operands(Writer& w, std::initializer_list<Value> values);
// With the casts of fp8 around each; `gradient` is of the output. Frozen weights have none.
void input_gradient(Writer& w, const Matrix& m, std::int64_t rows);
// What comes back is the gradient that autograd hands over, if the product makes one: 0 where it
// sums into main_grad.
Value weight_gradient(Writer& w, const Matrix& m, std::int64_t rows);
// Hands the gradients to data parallelism. REQUIRES: they are made; `made` by weight_gradient.
void hand_over(Writer& w, const Matrix& m, Value made = 0);
// The output's gradient in fp8, cast and cast transposed; 0 without fp8.
Value quantise(Writer& w, const Matrix& m, std::int64_t rows);

}  // namespace sim::program
