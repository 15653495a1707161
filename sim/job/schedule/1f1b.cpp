// 1f1b.cpp — the 1F1B schedule (PipeDream-Flush).
//
// Stage s first runs w = min(p - 1 - s, m) forwards to fill the pipeline, then alternates one
// forward with one backward, then drains w backwards. At most min(m, p - s) microbatches are live
// on stage s, against m for GPipe.
//
// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021
// (arXiv:2006.09503), section 3.2. The order is the one that Megatron-LM runs without virtual
// stages (forward_backward_pipelining_without_interleaving).
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  const int warmup = std::min(shape.stages - 1 - stage, shape.microbatches);

  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (int i = 0; i < warmup; ++i) order.push_back({Pass::forward, i});
  for (int i = warmup; i < shape.microbatches; ++i) {
    order.push_back({Pass::forward, i});
    order.push_back({Pass::backward, i - warmup});
  }
  for (int i = shape.microbatches - warmup; i < shape.microbatches; ++i)
    order.push_back({Pass::backward, i});
  return order;
}

std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int stage) {
  return std::min(shape.microbatches, shape.stages - stage);
}

}  // namespace

extern constinit const Schedule one_f_one_b{
    .name = "1f1b",
    .torch = "1F1B",
    .summary = "one forward, one backward; bounded memory",
    .source = "arXiv:2006.09503",
    .default_for = DefaultFor::one_chunk,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
