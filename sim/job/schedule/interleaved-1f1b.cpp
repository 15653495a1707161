// interleaved-1f1b.cpp — 1F1B over v model chunks per stage: the bubble is v times smaller.
//
// Microbatches pass in groups of G (interleaved.h). A stage is busy with chunk c while the group's
// results of chunk c travel around the ring. Stage s runs 2(p - s - 1) + (v - 1)G forwards to fill
// the pipeline, then alternates forward and backward, then drains.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021 (arXiv:2104.04473), section 2.2. The order is that of Megatron-LM
// (forward_backward_pipelining_with_interleaving). Core 0.4 to 0.9 runs all forwards first if m =
// p. Core 0.10 and later does not, and lets the user choose G
// (--microbatch-group-size-per-vp-stage). PyTorch's ScheduleInterleaved1F1B has the same order, and
// chooses G so that rounds are whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sim/job/schedule/interleaved.h"
#include "sim/job/schedule/rules.h"

namespace sim::schedule {
namespace {

int warm_up(const PipelineShape& shape, int stage) {
  const std::int64_t total = std::int64_t{shape.microbatches} * shape.chunks;
  const std::int64_t fill = std::int64_t{2} * (shape.stages - stage - 1) +
                            std::int64_t{shape.chunks - 1} * group_size(shape);
  const bool all =
      shape.interleaving == Interleaving::all_forwards_first && shape.microbatches == shape.stages;
  return static_cast<int>(all ? total : std::min(fill, total));
}

Order order(const PipelineShape& shape, int stage) {
  const int total = shape.microbatches * shape.chunks;
  const int warmup = warm_up(shape, stage);

  Order order;
  order.reserve(2 * static_cast<std::size_t>(total));
  for (int i = 0; i < warmup; ++i) order.push_back(nth(shape, Pass::forward, i));
  for (int i = warmup; i < total; ++i) {
    order.push_back(nth(shape, Pass::forward, i));
    order.push_back(nth(shape, Pass::backward, i - warmup));
  }
  for (int i = total - warmup; i < total; ++i) order.push_back(nth(shape, Pass::backward, i));
  return order;
}

// The rule of the group [Megatron-LM core 0.14 schedules.py asserts it].
std::string group_rule(const PipelineShape& shape) {
  const int group = shape.group, p = shape.stages, m = shape.microbatches;
  if (group < p || group > m)
    return "the group of microbatches is " + std::to_string(group) +
           "; it must be from the number of stages to that of microbatches, " + std::to_string(p) +
           " to " + std::to_string(m);
  if (const int left = m % group; left != 0 && left < p)
    return "groups of " + std::to_string(group) + " leave " + std::to_string(left) + " of the " +
           std::to_string(m) + " microbatches, fewer than the " + std::to_string(p) +
           " stages; write " + std::to_string(m) + " or " + std::to_string(m - left) +
           " microbatches, or another group";
  return "";
}

std::string problem(const PipelineShape& shape) {
  PipelineShape without = shape;
  without.group = 0;
  if (std::string problem = within_bounds(without); !problem.empty()) return problem;
  if (shape.stages < 2)
    return "interleaving needs at least 2 pipeline stages, not 1; use 1f1b for one stage";
  if (shape.chunks < 2)
    return "interleaving needs at least 2 virtual stages, not 1; use 1f1b for one";
  if (shape.interleaving == Interleaving::whole_rounds && shape.group == 0)
    return whole_rounds(shape);
  if (shape.group != 0) return group_rule(shape);
  const std::string problem =
      whole_multiple(shape, shape.stages, std::to_string(shape.stages) + " stages");
  return problem.empty() ? "" : "interleaving " + problem;
}

// A pass is 1/v of a stage. The work is 3mv passes, and the bubble is p - 1 passes of each
// direction.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  if (group_size(shape) != shape.stages || shape.microbatches % shape.stages != 0) return {};
  return 3 * (std::int64_t{shape.microbatches} * shape.chunks + shape.stages - 1);
}

std::optional<int> live(const PipelineShape& shape, int stage) {
  return std::min(shape.microbatches * shape.chunks, warm_up(shape, stage) + 1);
}

}  // namespace

extern constinit const Schedule interleaved_one_f_one_b{
    .name = "interleaved-1f1b",
    .torch = "Interleaved1F1B",
    .summary = "1f1b over several model chunks per stage; smaller bubble",
    .source = "arXiv:2104.04473",
    .wire = {.ahead = 1, .waits_for_sends = true},
    .chunks = 2,
    .gathers_chunks = true,
    .default_for = DefaultFor::several_chunks,
    .problem = problem,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
