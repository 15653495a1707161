// matrix.h — products with weights that no tensor parallelism wraps: the router's, the experts',
// the narrow ones of latent attention. One weight, or one for each local expert, whose products run
// as one group (TransformerEngine's GroupedLinear).
//
// [TransformerEngine 1.9 module/grouped_linear.py: _GroupedLinear; module/linear.py]
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/workload/tape.h"

namespace sim::workload {

// `count` weights [out, in], each for an even share of the rows.
struct Matrix {
  std::string_view name, parameter;
  std::int64_t in, out, count = 1;
  bool grouped = true;
  bool narrow = false;  // never in fp8
  std::string_view bias = "";
};

void multiply(Writer& w, const Matrix& m, std::int64_t rows);
// What weight gradients read: saved, and dropped behind them, unless adapters alone are trained.
void save_operands(Writer& w, std::initializer_list<Value> values);
void drop_operands(Writer& w, std::initializer_list<Value> values);
// With the casts of fp8 around each; `gradient` is of the output. Frozen weights have none.
void input_gradient(Writer& w, const Matrix& m, std::int64_t rows);
void weight_gradient(Writer& w, const Matrix& m, std::int64_t rows);
// Hands the gradients to data parallelism. REQUIRES: they are made.
void hand_over(Writer& w, const Matrix& m);
// The output's gradient in fp8, cast and cast transposed; 0 without fp8.
Value quantise(Writer& w, const Matrix& m, std::int64_t rows);

}  // namespace sim::workload
