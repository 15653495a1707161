// local.cpp — local parallelism: each part of the model has its own loss, so no gradient crosses a
// boundary. Activations stream forward, and each stage runs its backward pass immediately. One
// microbatch is live, and the only bubble is the wait for the first one.
//
//     aAbBcC      stage s starts s later
//
// Laskin et al., "Parallel Training of Deep Networks with Local Updates" (arXiv:2012.03837). The
// cost in model quality is not simulated.
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (int i = 0; i < shape.microbatches; ++i) {
    order.push_back({Pass::forward, i});
    order.push_back({Pass::backward, i});
  }
  return order;
}

std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& /*shape*/, int /*stage*/) {
  return 1;
}

}  // namespace

extern constinit const Schedule local{
    .name = "local",
    .summary = "parts with losses of their own; no gradient crosses a boundary, no bubble",
    .source = "arXiv:2012.03837",
    .wire = posted_ahead,
    .gradients_travel = false,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
