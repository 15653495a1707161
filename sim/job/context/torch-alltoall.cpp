// torch-alltoall.cpp — PyTorch's context_parallel with rotate_method alltoall: a ring in zigzag
// order. The outputs of its steps are merged in fp32. A message is an all-to-all with one partner.
#include "sim/job/context/context.h"

namespace sim::context {

std::string torch_problem(const AttentionShape& shape) {
  if (shape.ranks > 1 && shape.order != TokenOrder::zigzag)
    return "PyTorch's context_parallel splits sequences in zigzag order";
  return split_problem(shape);
}

std::vector<AttentionStep> torch_all_to_all_forward(const AttentionShape& shape, int rank) {
  return ring_steps(shape.order, shape.ranks, rank, shape.sequence, shape.pair_bytes(shape.groups),
                    Level::all);
}

}  // namespace sim::context
