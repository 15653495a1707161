// zb-2p.cpp — the order that zero_bubble_search.h finds in twice the memory of 1F1B: at most 2p
// live microbatches on any stage.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 3 and table
// 4.
#include <algorithm>

#include "sim/job/schedule/zero_bubble_search.h"

namespace sim::schedule {
namespace {

std::vector<Order> search(const PipelineShape& shape) {
  return zero_bubble_search(shape, 2 * shape.stages);
}

// With passes of one unit, no stage waits after its first pass; the last stage starts p - 1 later.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return std::min(shape.microbatches, 2 * shape.stages);
}

}  // namespace

extern constinit const Schedule zb_2p{
    .name = "zb-2p",
    .summary = "searched: least idle time in twice the memory of 1f1b",
    .source = "arXiv:2401.10241",
    .splits = Splits::all,
    .wire = posted_ahead,
    .fills = 2,
    .by_times = true,
    .problem = zero_bubble_rule,
    .search = search,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
