// deep.cpp — Deep Optimizer States: of every k sub-groups one is fetched, updated on the GPU and
// written back, while the CPU updates the others. The fetch starts while the previous k sub-groups
// are updated.
//
//     k = 3      cpu    1   2   4   5   7   8
//                up     [3]     [6]     [9]       beside: 1 2, 4 5, 7 8 in 16 bits
//                gpu        3       6       9
//                down        [3]     [6]     [9]
#include <algorithm>

#include "sim/job/offload/offload.h"

namespace sim::offload {

std::string deep_problem(const OptimizerShard& shape) {
  if (shape.stride < 2)
    return "every how many sub-groups one goes to the GPU: write a stride of 2 or more";
  return shape_problem(shape);
}

std::vector<Work> deep_step(const OptimizerShard& shape) {
  constexpr std::int64_t state_bytes = 12, parameter_bytes = 2;
  std::vector<Work> step;
  const Split parts = split(shape);
  if (parts.remainder > 0) step.push_back(update_on_gpu(parts.remainder));
  const std::vector<std::int64_t>& groups = parts.on_cpu;
  const auto stride = static_cast<std::size_t>(shape.stride);
  for (std::size_t first = 0; first < groups.size(); first += stride) {
    const std::size_t fetched = first + stride - 1;
    const bool fetches = fetched < groups.size();
    std::size_t state = 0;
    if (fetches) {
      state = step.size();
      step.push_back(
          copy(Queue::pcie_up, "state up", groups[fetched], state_bytes, shape.traffic.state));
    }
    std::int64_t updated_here = 0;
    const std::size_t begin = step.size();
    for (std::size_t g = first; g < std::min(fetched, groups.size()); ++g) {
      step.push_back(update_on_cpu(groups[g], shape.traffic));
      updated_here += groups[g];
    }
    const std::size_t end = step.size();
    if (fetches) {
      Work update = update_on_gpu(groups[fetched]);
      update.after = {state};
      const std::size_t updated = step.size();
      step.push_back(std::move(update));
      Work back =
          copy(Queue::pcie_down, "state down", groups[fetched], state_bytes, shape.traffic.state);
      back.after = {updated};
      step.push_back(std::move(back));
    }
    if (begin == end) continue;
    Work up = copy(Queue::pcie_up, "parameter up", updated_here, parameter_bytes, 0);
    up.after = {end - 1};
    step.push_back(std::move(up));
  }
  return step;
}

}  // namespace sim::offload
