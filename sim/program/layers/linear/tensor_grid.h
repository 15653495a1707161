// tensor_grid.h — tensor-parallel ranks in rows and columns (AxoNN), and the depth behind them.
//
// The tp ranks stand in a grid, tensor_columns neighbours in a row of it. A rank has its columns of
// the residual stream, h / columns wide, and its row's heads. The grid is turned from one product
// to the next, so that no tensor is sent to another place:
//
//                     weight's rows over     its columns over     forward sum     backward sum
//     qkv, fc1        the rows of the grid   its columns          columns         rows
//     projection, fc2 its columns            the rows             rows            columns
//
// With one column that is Megatron-LM's split. Norms read the columns of their rank alone; the
// embedding's output is cut into columns, which the final norm gathers; the vocabulary lies over
// all tp ranks.
//
// [Singh et al., arXiv:2305.13525 section V; axonn-ai/axonn intra_layer/fully_connected.py:Linear
// (transpose); axonn-ai/Megatron-AxoNN megatron/model/transformer.py; INVENTORY.md section 32]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// What of a plan with tensor_columns or tensor_depth cannot be.
std::vector<Problem> tensor_grid_problems(const Plan& plan);

// The ranks that share the rows of a column-parallel weight; all of tp where there is one column.
inline Stream over_rows(const Plan& plan) {
  return plan.mesh.tensor_columns > 1 ? Stream::tensor_rows : Stream::tp;
}

// Sums over the ranks of a row of the grid, where it has several: waited for at once, or beside
// what follows until somebody waits for `summed`.
void sum_over_columns(Writer& w, Value v, std::int64_t bytes, std::uint16_t summed = 0);

// All columns of rows of which this rank has some: a new tensor.
Value gather_columns(Writer& w, std::string_view label);

}  // namespace sim::program
