// ring.cpp — keys and values visit every rank; while one block is multiplied the next travels.
//
//     step 0: own keys, causal      step k: those of rank j - k, of which half count (zigzag)
#include "sim/job/context/context.h"

namespace sim::context {

std::string ring_problem(const Shape& shape) {
  return split_problem(shape);
}

std::vector<Step> ring_forward(const Shape& shape, int rank) {
  return ring_steps(shape.order, shape.ranks, rank, shape.sequence, shape.pair_bytes(shape.groups),
                    Level::all);
}

}  // namespace sim::context
