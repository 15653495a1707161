#include "sim/offload/resources.h"

#include <algorithm>
#include <cassert>

namespace sim::offload {

std::string_view name(Queue queue) {
  static constexpr std::array<std::string_view, queue_count> names{"cpu", "gpu", "pcie up",
                                                                   "pcie down"};
  return names[static_cast<std::size_t>(queue)];
}

Timeline run(const std::vector<Task>& tasks) {
  Timeline out;
  std::array<Time, queue_count> free{};
  Time memory{};
  for (const Task& task : tasks) {
    const auto queue = static_cast<std::size_t>(task.queue);
    Time start = free[queue];
    for (const std::size_t earlier : task.after) {
      assert(earlier < out.end.size());
      start = std::max(start, out.end[earlier]);
    }
    const bool shares = task.memory.ps > 0;
    if (shares) start = std::max(start, memory);
    // Memory that others draw on while it works makes a task longer than its own queue does.
    const Time end = start + std::max(task.length, task.memory);
    if (shares) memory = start + task.memory;
    free[queue] = end;
    out.start.push_back(start);
    out.end.push_back(end);
    out.last = std::max(out.last, end);
    out.busy[queue] += end - start;
    out.memory += task.memory;
  }
  return out;
}

}  // namespace sim::offload
