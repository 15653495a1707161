// hierarchical.cpp — TransformerEngine's two levels (a2a+p2p): the messages of usp.cpp in zigzag
// order. Key-value groups are never repeated.
#include "sim/job/context/context.h"

namespace sim::context {

std::string usp_problem(const AttentionShape& shape);
std::vector<AttentionStep> usp_forward(const AttentionShape& shape, int rank);

std::string hierarchical_problem(const AttentionShape& shape) {
  if (shape.ranks > 1 && shape.order != TokenOrder::zigzag)
    return "two levels of TransformerEngine are split in zigzag order";
  if (shape.ulysses >= 1 && shape.groups % shape.ulysses != 0)
    return "the key-value heads of a rank are not a multiple of its neighbours";
  return usp_problem(shape);
}

std::vector<AttentionStep> hierarchical_forward(const AttentionShape& shape, int rank) {
  return usp_forward(shape, rank);
}

}  // namespace sim::context
