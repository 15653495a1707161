// breadth-first.cpp — the breadth-first pipeline: all microbatches pass through chunk 0, then all
// through chunk 1, ... The backward pass starts at the last chunk, with microbatches in reverse.
// The parameters of a chunk are needed once in each direction.
//
//     abABba..  and so on: abcd ABCD | DCBA dcba with two chunks (capitals), every stage
//
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023 (arXiv:2211.05953), figure 1; the
// order is that of PyTorch's ScheduleLoopedBFS.
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches * shape.chunks));
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    for (int i = 0; i < shape.microbatches; ++i) order.push_back({Pass::forward, i, chunk});
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk)
    for (int i = shape.microbatches - 1; i >= 0; --i) order.push_back({Pass::backward, i, chunk});
  return order;
}

// The bubble is p - 1 passes of a chunk to fill and to drain, once the microbatches keep the ring
// busy.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  if (shape.chunks > 1 && shape.microbatches < shape.stages) return {};
  return 3 * (std::int64_t{shape.microbatches} * shape.chunks + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return shape.microbatches * shape.chunks;
}

}  // namespace

extern constinit const Schedule breadth_first{
    .name = "breadth-first",
    .torch = "LoopedBFS",
    .summary = "all microbatches through one chunk, then the next; parameters needed once",
    .source = "arXiv:2211.05953",
    .wire = posted_ahead,
    .chunks = 2,
    .problem = within_bounds,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
