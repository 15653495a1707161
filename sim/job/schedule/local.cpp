// local.cpp — local parallelism: each part of the model has a loss of its own, no gradient crosses
// a boundary. Activations stream forward, each stage goes back at once: one live microbatch, and a
// bubble only until the first one has arrived.
//
//     aAbBcC      stage s starts s later
//
// Laskin et al., "Parallel Training of Deep Networks with Local Updates" (arXiv:2012.03837). What
// it costs in quality is not simulated.
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const Shape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (int i = 0; i < shape.microbatches; ++i) {
    order.push_back({Pass::forward, i});
    order.push_back({Pass::backward, i});
  }
  return order;
}

std::optional<std::int64_t> makespan(const Shape& shape) {
  return 3 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const Shape& /*shape*/, int /*stage*/) {
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
