// dualpipe-v.cpp — DualPipe with two parts per stage in a V, instead of two copies of each part. It
// uses the phases of dualpipe_phases.h.
//
// deepseek-ai/DualPipe, dualpipev.py; Qi et al., "DualPipe could be better without the Dual"
// (2025): the bubble is (p - 1)(F&B + B - 3W) on p stages; 2p + 1 live half-stages.
#include "sim/job/schedule/bidirectional/dualpipe_phases.h"
#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  return dualpipe_order({.rank = stage,
                         .ranks = shape.stages,
                         .microbatches = shape.microbatches,
                         .joins_all = stage < shape.stages - 1});
}

std::string problem(const PipelineShape& shape) {
  if (std::string problem = two_chunks(shape); !problem.empty()) return problem;
  return microbatches_from(shape, 2 * shape.stages, "two per stage");
}

std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 6 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return 2 * shape.stages + 1;
}

}  // namespace

extern constinit const Schedule dualpipe_v{
    .name = "dualpipe-v",
    .torch = "DualPipeV",
    .summary = "dualpipe in a V: two parts per stage, one copy of the parameters",
    .source = "arXiv:2412.19437",
    .placement = Placement::v,
    .splits = Splits::some,
    .wire = posted_ahead,
    .chunks = 2,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
