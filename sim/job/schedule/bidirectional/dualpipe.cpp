// dualpipe.cpp — DualPipe: microbatches enter the pipeline from both ends. Stage s holds part s for
// one half of them and part p - 1 - s for the other, so each part exists twice. Passes of the two
// directions run beside each other, which hides the messages between experts.
//
// The two halves of the pipeline mirror each other: with h = min(s, p - 1 - s), each runs the
// phases of dualpipe_phases.h with R = p/2, its own direction first.
//
// DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv:2412.19437), figure 5: the bubble is (p/2 -
// 1)(F&B + B - 3W), with F&B the two beside each other; p + 1 live microbatches.
#include <algorithm>

#include "sim/job/schedule/bidirectional/dualpipe_phases.h"
#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  const int mirror = shape.stages - 1 - stage;
  const int half = shape.microbatches / 2;
  return dualpipe_order({.rank = std::min(stage, mirror),
                         .ranks = shape.stages / 2,
                         .microbatches = half,
                         .first_chunk = stage > mirror ? 1 : 0,
                         .first_of = {0, half}});
}

std::string problem(const PipelineShape& shape) {
  if (std::string problem = two_chunks(shape); !problem.empty()) return problem;
  if (shape.stages % 2 != 0)
    return "the schedule needs an even number of stages, not " + std::to_string(shape.stages) +
           "; write " + std::to_string(shape.stages + 1);
  if (std::string problem = microbatches_from(shape, 2 * shape.stages, "two per stage");
      !problem.empty())
    return problem;
  const std::string odd = whole_multiple(shape, 2, "2 directions");
  return odd.empty() ? "" : "the schedule " + odd;
}

// With passes one after the other, one bubble is F + D + D - 3W long: 1 + 2 + 1 - 3 with B for D.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * std::int64_t{shape.microbatches} + shape.stages / 2 - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return shape.stages + 1;
}

}  // namespace

extern constinit const Schedule dualpipe{
    .name = "dualpipe",
    .summary = "microbatches from both ends over two copies of the parameters",
    .source = "arXiv:2412.19437",
    .placement = Placement::two_way,
    .splits = Splits::some,
    .wire = posted_ahead,
    .chunks = 2,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
