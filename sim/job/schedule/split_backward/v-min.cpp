// v-min.cpp — the V-min schedule: about a third of 1F1B's activations, the minimum for a V, with a
// bubble of about 4p chunk passes.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv:2405.15362), section 4.3.
#include "sim/job/schedule/split_backward/v_pattern.h"

namespace sim::schedule {
namespace {

std::vector<Order> search(const PipelineShape& shape) {
  const int p = shape.stages;
  const int shift = p % 3 == 0 ? 2 : 0;  // keeps the passes of a stage in different slots
  std::vector<Block> blocks;
  for (int i = 0; i < p; ++i)
    blocks.push_back({i, 2 * p - i - 1, 2 * p + shift + i, 4 * p + shift - i - 1});
  return repeated(blocks, shape.microbatches);
}

// Valid once 2p microbatches fill the block. With a shift the bubble is shorter.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  const std::int64_t p = shape.stages, m = shape.microbatches;
  if (m < 2 * p) return {};
  if (p == 1) return 6 * m;
  return 6 * m + 4 * p - (p % 3 == 0 ? 7 : 5);
}

// The last stage holds (p + 2)/3 full stages, rounded up; the first ones may hold less.
std::optional<int> live(const PipelineShape& shape, int stage) {
  if (shape.microbatches < 2 * shape.stages || stage + 1 < shape.stages) return {};
  return 2 * ((shape.stages + 2 + 2) / 3);
}

}  // namespace

extern constinit const Schedule v_min{
    .name = "v-min",
    .summary = "two parts per stage in a V; a third of the activations of 1f1b on every stage",
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
