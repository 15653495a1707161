#include "sim/program/layers/linear/tensor_grid.h"

#include <fmt/format.h>

#include "sim/program/plan/layer_partition.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

void sum_over_columns(Writer& w, Value v, std::int64_t bytes, std::uint16_t summed) {
  if (w.plan.mesh.tensor_columns == 1) return;
  w.e.collective(Kind::all_reduce, Stream::tensor_columns, bytes, "all-reduce",
                 summed != 0 ? overlapped : joins, summed);
  if (w.records()) w.record_stream(v, Stream::tensor_columns);
}

// A list of tensors that is concatenated [axonn intra_layer/communication.py:Gather].
Value gather_columns(Writer& w, std::string_view label) {
  const std::int64_t bytes = w.rank.dim.full();
  const Value parts = w.temporary(bytes, "gathered columns");
  w.e.collective(Kind::all_gather, Stream::tensor_columns, bytes, "all-gather");
  const Value made = w.temporary(bytes, label);
  w.memory_bound(OperationKind::copy, "join columns", 2 * bytes);
  w.drop(parts);
  return made;
}

}  // namespace sim::program
