// zb-h1.cpp — the ZB-H1 schedule: backward is split into the gradient of the input (B) and that of
// the weights (W). No other stage waits for a W, so Ws fill the drain of the pipeline.
//
// Forwards and Bs run as in 1F1B, with w = min(p - 1 - s, m) forwards first. Stage s holds back s
// Ws: W number j - s follows B number j, and the remaining Ws come at the end. So a stage has at
// most p - s microbatches between F and B and s between B and W: min(m, p) live ones. This is the
// memory of 1F1B's first stage.
//
// With F = B = W = 1 the step takes max(3m + (p - 1), 2m + 2(p - 1) + 1):
// - Stage 0 has 3m of work. It idles p - 1 between its pth forward and its first B, which comes
//   back after p forwards and p - 1 Bs. From m >= p on it never waits again.
// - For m < p the last stage decides: p - 1 to reach it, m forwards and m Bs without a gap, p - 1
//   to return, and one W.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 2.1 and
// figure 2: the bubble is (p - 1)(T_F + T_B - T_W).
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  const int warmup = std::min(shape.stages - 1 - stage, m);

  Order order;
  order.reserve(3 * static_cast<std::size_t>(m));
  for (int i = 0; i < warmup; ++i) order.push_back({Pass::forward, i});
  for (int i = 0; i < m; ++i) {
    if (i + warmup < m) order.push_back({Pass::forward, i + warmup});
    order.push_back({Pass::input, i});
    if (i >= stage) order.push_back({Pass::weight, i - stage});
  }
  for (int i = std::max(m - stage, 0); i < m; ++i) order.push_back({Pass::weight, i});
  return order;
}

std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  const std::int64_t m = shape.microbatches, p = shape.stages;
  return std::max(3 * m + p - 1, 2 * m + 2 * (p - 1) + 1);
}

// Every stage holds what 1F1B holds on its first stage.
std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return std::min(shape.microbatches, shape.stages);
}

}  // namespace

extern constinit const Schedule zb_h1{
    .name = "zb-h1",
    .summary = "weight gradients split off to fill the drain; memory of 1f1b",
    .source = "arXiv:2401.10241",
    .splits = Splits::all,
    .wire = posted,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
