// lora.h — the two products of a low-rank adapter: W x + (alpha / r) B A x with A [r, k], B [n, r]
// (Hu et al., arXiv:2106.09685), split over the tensor-parallel ranks as NeMo and Megatron-Bridge
// split them (peft: ParallelLinearAdapter): beside a column-parallel product A by its rows and B by
// its rows, beside a row-parallel one A by its columns and B by its rows.
#pragma once

#include "sim/workload/rank.h"

namespace sim::workload {

struct AdapterShape {
  bool column;            // beside a column-parallel product
  std::int64_t in, out;   // width of the product's input and output on this rank
  std::int64_t rank;      // r, whole
  std::int64_t inner;     // rows of A here: r / t beside a column-parallel product
  std::int64_t up_width;  // rows of B here
  std::int64_t down() const { return inner * in; }
  std::int64_t up() const { return up_width * rank; }
};

AdapterShape adapter_shape(const Rank& rank, Module module);

}  // namespace sim::workload
