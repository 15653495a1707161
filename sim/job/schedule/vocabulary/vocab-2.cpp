// vocab-2.cpp — vocabulary-parallel 1F1B (vocabulary.h) with one barrier per microbatch. It has one
// live microbatch more than 1F1B.
//
// Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv:2411.05288),
// algorithm 2.
#include <algorithm>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/vocabulary/vocabulary.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  return vocabulary_order(shape, stage, 1);
}

// The makespan if output passes take no time.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int stage) {
  return std::min(shape.microbatches, shape.stages - stage + 1);
}

}  // namespace

extern constinit const Schedule vocab_2{
    .name = "vocab-2",
    .summary = "1f1b with the vocabulary cut over all stages, one barrier a microbatch",
    .source = "arXiv:2411.05288",
    .wire = posted_ahead,
    .output = Output::one_barrier,
    .by_times = true,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
