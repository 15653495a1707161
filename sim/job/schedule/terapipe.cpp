// terapipe.cpp — slices of sequences in a pipeline. Attention is causal, so slice j of a sequence
// needs only slices up to j, and the next stage can begin with the first slice.
//
// All slices of all microbatches go forward, then back in reverse, because the gradients of a slice
// need those of the later slices. With slices of equal time the bubble is that of GPipe divided by
// their number. All microbatches are live. Slices of equal time have different lengths; the lengths
// are not chosen here.
//
// Li et al., "TeraPipe: Token-Level Pipeline Parallelism for Training Large-Scale Language Models",
// ICML 2021 (arXiv:2102.07988), figure 2 and section 3.3.
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

Order order(const PipelineShape& shape, int /*stage*/) {
  Order order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches * shape.slices));
  for (int i = 0; i < shape.microbatches; ++i)
    for (int slice = 0; slice < shape.slices; ++slice)
      order.push_back({Pass::forward, i, 0, slice});
  for (int i = shape.microbatches - 1; i >= 0; --i)
    for (int slice = shape.slices - 1; slice >= 0; --slice)
      order.push_back({Pass::backward, i, 0, slice});
  return order;
}

std::string problem(const PipelineShape& shape) {
  PipelineShape whole = shape;
  whole.slices = 1;
  if (std::string problem = one_chunk(whole); !problem.empty()) return problem;
  return sizes(shape);
}

// The makespan in passes of one slice.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  return 3 * (std::int64_t{shape.microbatches} * shape.slices + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  return shape.microbatches * shape.slices;
}

}  // namespace

extern constinit const Schedule terapipe{
    .name = "terapipe",
    .summary = "slices of a sequence in a pipeline; the bubble is that of a slice",
    .source = "arXiv:2102.07988",
    .wire = posted_ahead,
    .slices = 4,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
