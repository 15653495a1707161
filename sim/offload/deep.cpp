// deep.cpp — Deep Optimizer States: of every k sub-groups one is fetched, updated on the GPU and
// written back while the CPU updates the others; it is asked for while the group before is worked
// on.
//
//     k = 3      cpu    1   2   4   5   7   8
//                up     [3]     [6]     [9]
//                gpu        3       6       9
//                down        [3]     [6]     [9]
#include <algorithm>

#include "sim/offload/offload.h"

namespace sim::offload {

std::string deep_problem(const Shape& shape) {
  if (shape.stride < 2)
    return "every how many sub-groups one goes to the GPU: write a stride of 2 or more";
  return shape_problem(shape);
}

std::vector<Task> deep_step(const Shape& shape, const Rates& rates) {
  std::vector<Task> tasks;
  const Split parts = split(shape);
  if (parts.rest > 0) tasks.push_back(update_on_gpu(parts.rest, rates));
  const std::vector<std::int64_t>& groups = parts.away;
  const auto stride = static_cast<std::size_t>(shape.stride);
  const double each_way = rates.state_bytes / 2;
  for (std::size_t first = 0; first < groups.size(); first += stride) {
    const std::size_t fetched = first + stride - 1;
    const bool fetches = fetched < groups.size();
    std::size_t state = 0;
    if (fetches) {
      state = tasks.size();
      tasks.push_back(copy(Queue::pcie_up, "state up", groups[fetched], each_way, rates));
    }
    for (std::size_t g = first; g < std::min(fetched, groups.size()); ++g) {
      tasks.push_back(update_on_cpu(groups[g], rates.pinned_bytes, rates));
    }
    if (!fetches) continue;
    Task update = update_on_gpu(groups[fetched], rates);
    update.after = {state};
    const std::size_t updated = tasks.size();
    tasks.push_back(std::move(update));
    Task back = copy(Queue::pcie_down, "state down", groups[fetched], each_way, rates);
    back.after = {updated};
    tasks.push_back(std::move(back));
  }
  return tasks;
}

}  // namespace sim::offload
