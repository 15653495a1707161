// v-half.cpp — the V-half schedule: about half of 1F1B's activations, p/2 + 1 full stages on every
// stage, with a bubble of about 3p chunk passes.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv:2405.15362), section 4.3.
#include "sim/job/schedule/split_backward/v_pattern.h"

namespace sim::schedule {
namespace {

std::vector<Order> search(const PipelineShape& shape) {
  const int p = shape.stages;
  const int shift = p % 2 == 0 ? 3 : 0;  // keeps the passes of a stage in different slots
  std::vector<Block> blocks;
  for (int i = 0; i < p; ++i)
    blocks.push_back({2 * i, 3 * p - i - 2, 3 * p + shift + 2 * i - 1, 6 * p + shift - i - 2});
  return repeated(blocks, shape.microbatches);
}

// Valid once 2p microbatches fill the block. With a shift the bubble is shorter.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  const std::int64_t p = shape.stages, m = shape.microbatches;
  if (m < 2 * p) return {};
  if (p <= 2) return 6 * m + p - 1;
  return 6 * m + 3 * p - (p % 2 == 0 ? 7 : 4);
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  if (shape.microbatches < 2 * shape.stages) return {};
  return 2 * (shape.stages / 2 + 1);
}

}  // namespace

extern constinit const Schedule v_half{
    .name = "v-half",
    .summary = "two parts per stage in a V; half the activations of 1f1b on every stage",
    .source = "arXiv:2405.15362",
    .placement = Placement::v,
    .splits = Splits::all,
    .wire = posted_ahead,
    .chunks = 2,
    .problem = v_pattern_rule,
    .search = search,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
