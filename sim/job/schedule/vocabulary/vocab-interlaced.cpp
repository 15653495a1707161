// vocab-interlaced.cpp — 1F1B with the output layer split over all stages, which all run it at the
// same time (vocabulary.h). It has one and a half times the live microbatches of 1F1B.
//
// Stage s runs 3p/2 - s forwards and the output passes of p - s microbatches, then B S until the
// next forward is due. Then it runs F B S or B F S, alternating from stage to stage, and drains.
//
// Lin et al., "nnScaler: Constraint-Guided Parallelization Plan Generation for Deep Learning
// Training", OSDI 2024, names it interlaced; the order is that of sail-sg/VocabularyParallelism,
// interlaced_schedule.py.
#include <algorithm>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int stage) {
  const int p = shape.stages, m = shape.microbatches;
  const int warmup = std::min(3 * p / 2 - stage, m);
  const int cooldown = std::min(p - stage, m);
  const int waiting = std::max(0, warmup - cooldown - (p - stage - 1) / 2);
  const bool forward_first = stage % 2 == p % 2;

  Order order;
  int forwards = 0, backwards = 0, outputs = 0;
  const auto forward = [&] { order.push_back({Pass::forward, forwards++}); };
  const auto backward = [&] { order.push_back({Pass::backward, backwards++}); };
  const auto output = [&] { order.push_back({Pass::output, outputs++}); };
  while (forwards < warmup) forward();
  while (outputs < cooldown) output();
  for (int i = 0; i < waiting; ++i) {
    backward();
    output();
  }
  while (forwards < m) {
    if (forward_first) forward();
    backward();
    if (!forward_first) forward();
    output();
  }
  while (outputs < m) {
    backward();
    output();
  }
  while (backwards < m) backward();
  return order;
}

// The makespan if output passes take no time.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int stage) {
  return std::min(shape.microbatches, 3 * shape.stages / 2 - stage);
}

}  // namespace

extern constinit const Schedule vocab_interlaced{
    .name = "vocab-interlaced",
    .summary = "1f1b with the output layer on all stages at the same time, as tensor parallelism",
    .source = "arXiv:2411.05288",
    .wire = posted_ahead,
    .output = Output::together,
    .problem = one_chunk,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
