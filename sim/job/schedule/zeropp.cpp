// zeropp.cpp — ZeroPP: a unit of U microbatches passes through the chunks of a stage one after the
// other. The sharded parameters of a chunk are therefore gathered once per unit and direction.
// Weight gradients fill the bubbles.
//
// Within a unit, stage s runs the forwards of all chunks, but of the last chunk only 2(p - s) - 1,
// until the first gradient is back. Then it alternates F and B. From the last forward on, each B is
// followed by a W, and the unit's remaining Ws precede the next unit. With U >= 2p - 1 no stage
// waits between its first and its last pass. At most the U v chunks of a unit are live. Without a
// given group, the microbatches are split into as many units as have 2p - 1 of them.
//
// Tang et al., "ZeroPP: Unleashing Exceptional Parallelism Efficiency through Tensor-Parallelism-
// Free Methodology" (arXiv:2402.03791), sections 3.1 and 3.2. The paper shows only the order of
// small pipelines; warm-up and places of W are derived from it.
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

// The number of microbatches in each unit.
std::vector<int> units(const PipelineShape& shape) {
  const int m = shape.microbatches;
  std::vector<int> sizes;
  if (shape.group > 0) {
    for (int first = 0; first < m; first += shape.group)
      sizes.push_back(std::min(shape.group, m - first));
    return sizes;
  }
  const int count = std::max(1, m / (2 * shape.stages - 1));
  for (int i = 0; i < count; ++i) sizes.push_back(m / count + (i < m % count ? 1 : 0));
  return sizes;
}

// Appends a unit of `count` microbatches, from `first` on.
void unit(const PipelineShape& shape, int stage, int first, int count, Order& order) {
  const int total = count * shape.chunks;
  const auto forward = [&](int i) {
    return ScheduledPass{Pass::forward, first + i % count, i / count};
  };
  const auto gradient = [&](Pass pass, int i) {
    return ScheduledPass{pass, first + i % count, shape.chunks - 1 - i / count};
  };
  const int last_chunk = std::min(count, 2 * (shape.stages - stage) - 2);
  const int warmup = count * (shape.chunks - 1) + last_chunk;
  int weights = 0;
  for (int i = 0; i < warmup; ++i) order.push_back(forward(i));
  for (int i = 0; i < total; ++i) {
    if (i + warmup < total) order.push_back(forward(i + warmup));
    order.push_back(gradient(Pass::input, i));
    if (i + warmup + 1 >= total) order.push_back(gradient(Pass::weight, weights++));
  }
  while (weights < total) order.push_back(gradient(Pass::weight, weights++));
}

Order order(const PipelineShape& shape, int stage) {
  Order order;
  order.reserve(3 * static_cast<std::size_t>(shape.microbatches * shape.chunks));
  int first = 0;
  for (const int size : units(shape)) {
    unit(shape, stage, first, size, order);
    first += size;
  }
  return order;
}

std::string problem(const PipelineShape& shape) {
  PipelineShape without = shape;
  without.group = 0;
  if (std::string problem = within_bounds(without); !problem.empty()) return problem;
  if (shape.group < 0 || shape.group > shape.microbatches)
    return "the unit of microbatches is " + std::to_string(shape.group) +
           "; it must be 1 to their number, " + std::to_string(shape.microbatches);
  return "";
}

// Holds for one unit, or several of the same size: no stage waits except for its first input.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  const std::vector<int> sizes = units(shape);
  if (sizes.back() != sizes.front() || sizes.back() < shape.stages) return {};
  return 3 * std::int64_t{shape.microbatches} * shape.chunks + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return units(shape).front() * shape.chunks;
}

}  // namespace

extern constinit const Schedule zeropp{
    .name = "zeropp",
    .summary = "units of microbatches chunk by chunk over parameters in shards",
    .source = "arXiv:2402.03791",
    .splits = Splits::all,
    .wire = posted_ahead,
    .chunks = 2,
    .shared_parameters = true,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
