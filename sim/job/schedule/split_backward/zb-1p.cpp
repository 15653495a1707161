// zb-1p.cpp — the order that zero_bubble_search.h finds in the memory of 1F1B: at most p live
// microbatches on any stage.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 3 and table
// 4.
#include "sim/job/schedule/zero_bubble_search.h"

namespace sim::schedule {
namespace {

std::vector<Order> search(const PipelineShape& shape) {
  return zero_bubble_search(shape, shape.stages);
}

// With passes of one unit, a stage waits p - 1 for its first B and never afterwards.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return shape.stages;
}

}  // namespace

extern constinit const Schedule zb_1p{
    .name = "zb-1p",
    .summary = "searched: least idle time in the memory of 1f1b",
    .source = "arXiv:2401.10241",
    .splits = Splits::all,
    .wire = posted_ahead,
    .by_times = true,
    .problem = zero_bubble_rule,
    .search = search,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
