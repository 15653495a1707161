// vocab-1.cpp — vocabulary-parallel 1F1B (vocabulary.h) with two barriers per microbatch. Each
// barrier adds one live microbatch to those of 1F1B.
//
// Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv:2411.05288),
// algorithm 1.
#include <algorithm>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/vocabulary/vocabulary.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  return vocabulary_order(shape, stage, 2);
}

// The makespan if output passes take no time.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int stage) {
  return std::min(shape.microbatches, shape.stages - stage + 2);
}

}  // namespace

extern constinit const Schedule vocab_1{
    .name = "vocab-1",
    .summary = "1f1b with the vocabulary cut over all stages, two barriers a microbatch",
    .source = "arXiv:2411.05288",
    .wire = posted_ahead,
    .output = Output::two_barriers,
    .by_times = true,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
