// ring.cpp — keys and values visit every rank; the next block travels during the products of the
// current one.
//
//     step 0: own keys, causal      step k: those of rank j - k; half of them count (zigzag)
#include "sim/job/context/context.h"

namespace sim::context {

std::string ring_problem(const AttentionShape& shape) {
  return split_problem(shape);
}

std::vector<AttentionStep> ring_forward(const AttentionShape& shape, int rank) {
  return ring_steps(shape.order, shape.ranks, rank, shape.sequence, shape.pair_bytes(shape.groups),
                    Level::all);
}

}  // namespace sim::context
