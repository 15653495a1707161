// tensor_grid.h — tensor-parallel ranks in a grid of rows and columns (AxoNN), and its depth.
//
// The tp ranks form a grid with tensor_columns neighbours per row. A rank holds its columns of the
// residual stream, h / tensor_columns wide, and the heads of its grid row. The two directions of
// the grid change places from one product to the next, so no tensor moves to another rank:
//
//                     weight's rows over     its columns over     forward sum     backward sum
//     qkv, fc1        the rows of the grid   its columns          columns         rows
//     projection, fc2 its columns            the rows             rows            columns
//
// With one column this is Megatron-LM's split. Norms read only the columns of their rank. The
// output of the embedding is split into columns, and the final norm gathers them. The vocabulary is
// split over all tp ranks.
//
// [Singh et al., arXiv:2305.13525 section V; axonn-ai/axonn intra_layer/fully_connected.py:Linear
// (transpose); axonn-ai/Megatron-AxoNN megatron/model/transformer.py; INVENTORY.md section 32]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Communicator of the ranks that split the rows of a column-parallel weight: all of tp if the grid
// has one column.
inline Stream over_rows(const Plan& plan) {
  return plan.mesh.tensor_columns > 1 ? Stream::tensor_rows : Stream::tp;
}

// All-reduce of `v` (`bytes` bytes) over one row of the grid, if the row has several ranks. The
// compute stream waits at once, or, if `summed` is given, when it waits for that event.
void sum_over_columns(Writer& w, Value v, std::int64_t bytes, std::uint16_t summed = 0);

// All-gather of the columns of the residual stream: returns a new tensor.
Value gather_columns(Writer& w, std::string_view label);

}  // namespace sim::program
