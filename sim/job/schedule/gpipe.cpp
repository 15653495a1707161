// gpipe.cpp — the GPipe schedule: all forwards, then all backwards in reverse.
//
//     abcdDCBA      every stage, shifted by its place in the pipeline: all m microbatches are live
//
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// NeurIPS 2019 (arXiv:1811.06965), figure 2c.
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (int i = 0; i < shape.microbatches; ++i) order.push_back({Pass::forward, i});
  for (int i = shape.microbatches - 1; i >= 0; --i) order.push_back({Pass::backward, i});
  return order;
}

// p - 1 to fill and to drain, of one forward and one backward pass.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return shape.microbatches;
}

}  // namespace

extern constinit const Schedule gpipe{
    .name = "gpipe",
    .torch = "GPipe",
    .summary = "all forwards, then all backwards",
    .source = "arXiv:1811.06965",
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
