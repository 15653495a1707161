// hierarchical.cpp — TransformerEngine's two levels (a2a+p2p): the messages of usp.cpp in zigzag
// order. Key-value groups are never repeated.
#include "sim/job/context/context.h"

namespace sim::context {

std::string usp_problem(const Shape& shape);
std::vector<Step> usp_forward(const Shape& shape, int rank);

std::string hierarchical_problem(const Shape& shape) {
  if (shape.ranks > 1 && shape.order != TokenOrder::zigzag)
    return "two levels of TransformerEngine are split in zigzag order";
  if (shape.ulysses >= 1 && shape.groups % shape.ulysses != 0)
    return "the key-value heads of a rank are not a multiple of its neighbours";
  return usp_problem(shape);
}

std::vector<Step> hierarchical_forward(const Shape& shape, int rank) {
  return usp_forward(shape, rank);
}

}  // namespace sim::context
