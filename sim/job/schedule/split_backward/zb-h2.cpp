// zb-h2.cpp — the ZB-H2 schedule: twice the memory of 1F1B, and no bubble between a stage's first
// and last pass.
//
// It differs from zb-h1 in two points. Stage s runs 2(p - s) - 1 forwards before its first B, which
// fill the time until the input of that B is back. It also holds back 2s Ws. So at most 2(p - s) -
// 1 microbatches are between F and B, and 2s between B and W: 2p - 1 live ones on every stage. The
// stages end one after another, as they began, so the gain needs an optimizer that does not wait
// for all of them.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 2.2 and
// figure 3: the bubble is (p - 1)(T_F + T_B - 2 T_W).
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  const int warmup = std::min(2 * (shape.stages - stage) - 2, m);
  const int kept = 2 * stage;

  Order order;
  order.reserve(3 * static_cast<std::size_t>(m));
  for (int i = 0; i < warmup; ++i) order.push_back({Pass::forward, i});
  for (int i = 0; i < m; ++i) {
    if (i + warmup < m) order.push_back({Pass::forward, i + warmup});
    order.push_back({Pass::input, i});
    if (i >= kept) order.push_back({Pass::weight, i - kept});
  }
  for (int i = std::max(m - kept, 0); i < m; ++i) order.push_back({Pass::weight, i});
  return order;
}

// Stage 0 never waits; the last stage starts p - 1 later.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  if (shape.microbatches < 2 * shape.stages - 1) return {};
  return 3 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return std::min(shape.microbatches, 2 * shape.stages - 1);
}

}  // namespace

extern constinit const Schedule zb_h2{
    .name = "zb-h2",
    .summary = "weight gradients fill every bubble of a stage; twice the memory of 1f1b",
    .source = "arXiv:2401.10241",
    .splits = Splits::all,
    .wire = posted_ahead,
    .fills = 2,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
