// interleaved-zb.cpp — interleaved 1F1B with split weight gradients.
//
// Microbatches pass in groups (interleaved.h), as PyTorch's whole rounds. Stage s runs (v - 1)G + p
// - 1 - s forwards first, then alternates F and B. From B number s on, W number k - s follows B
// number k; the remaining Ws come at the end.
//
// PyTorch's ScheduleInterleavedZeroBubble, after Qi et al., "Zero Bubble Pipeline Parallelism",
// ICLR 2024 (arXiv:2401.10241).
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/interleaved.h"
#include "sim/job/schedule/rules.h"

namespace sim::schedule {
namespace {

PipelineShape in_rounds(PipelineShape shape) {
  shape.interleaving = Interleaving::whole_rounds;
  return shape;
}

Order order(const PipelineShape& given, int stage) {
  const PipelineShape shape = in_rounds(given);
  const int total = shape.microbatches * shape.chunks;
  const int fill = (shape.chunks - 1) * group_size(shape) + shape.stages - 1 - stage;
  const int warmup = std::min(fill, total);

  Order order;
  order.reserve(3 * static_cast<std::size_t>(total));
  for (int i = 0; i < warmup; ++i) order.push_back(nth(shape, Pass::forward, i));
  for (int i = 0; i < total; ++i) {
    if (i + warmup < total) order.push_back(nth(shape, Pass::forward, i + warmup));
    order.push_back(nth(shape, Pass::input, i));
    if (i >= stage) order.push_back(nth(shape, Pass::weight, i - stage));
  }
  for (int i = std::max(total - stage, 0); i < total; ++i)
    order.push_back(nth(shape, Pass::weight, i));
  return order;
}

std::string problem(const PipelineShape& shape) {
  if (std::string problem = within_bounds(shape); !problem.empty()) return problem;
  return whole_rounds(shape);
}

// The last stage starts p - 1 later and has no bubble, if a group has p microbatches.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  if (shape.microbatches % shape.stages != 0) return {};
  return 3 * std::int64_t{shape.microbatches} * shape.chunks + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  const int fill = (shape.chunks - 1) * group_size(in_rounds(shape)) + shape.stages;
  return std::min(fill, shape.microbatches * shape.chunks);
}

}  // namespace

extern constinit const Schedule interleaved_zb{
    .name = "interleaved-zb",
    .torch = "InterleavedZeroBubble",
    .summary = "interleaved-1f1b with weight gradients split off to fill the drain",
    .source = "arXiv:2401.10241",
    .splits = Splits::all,
    .wire = posted_ahead,
    .chunks = 2,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
