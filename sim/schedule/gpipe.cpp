// gpipe.cpp — the GPipe schedule: all forwards, then all backwards in reverse.
//
//     abcdDCBA      every stage, shifted by its place in the pipeline: all m microbatches are live
//
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// NeurIPS 2019 (arXiv:1811.06965), figure 2c.
#include <cstddef>

#include "sim/schedule/schedule.h"

namespace sim::schedule {

Order gpipe(const Shape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (int i = 0; i < shape.microbatches; ++i) order.push_back({Pass::forward, i});
  for (int i = shape.microbatches - 1; i >= 0; --i) order.push_back({Pass::backward, i});
  return order;
}

}  // namespace sim::schedule
