#include "sim/job/schedule/interleaved.h"

#include <algorithm>

#include "sim/job/schedule/rules.h"

namespace sim::schedule {
namespace {

int rounds(const PipelineShape& shape) {
  return std::max(1, shape.microbatches / shape.stages);
}

}  // namespace

int group_size(const PipelineShape& shape) {
  if (shape.group > 0) return shape.group;
  if (shape.interleaving == Interleaving::whole_rounds) return shape.microbatches / rounds(shape);
  return shape.stages;
}

ScheduledPass nth(const PipelineShape& shape, Pass pass, int i) {
  const int group = group_size(shape);
  const int first = i / (group * shape.chunks) * group;  // microbatch of the group
  const int size = std::min(group, shape.microbatches - first);
  const int within = i - first * shape.chunks;
  const int chunk = within / size;
  return {pass, first + within % size, pass == Pass::forward ? chunk : shape.chunks - 1 - chunk};
}

std::string whole_rounds(const PipelineShape& shape) {
  const std::string problem = whole_multiple(shape, rounds(shape), "rounds");
  if (problem.empty()) return "";
  return "PyTorch's interleaving runs m / p = " + std::to_string(rounds(shape)) +
         " rounds of as many microbatches each; it " + problem;
}

}  // namespace sim::schedule
