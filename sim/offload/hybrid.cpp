// hybrid.cpp — Megatron-LM's HybridDeviceOptimizer: whole parameters on the CPU. All gradients are
// queued downwards, the GPU updates its share, then the CPU updates its own and the fp32 parameters
// go up.
//
//     one optimizer      down [all]    cpu    [all]    up      [all]
#include "sim/offload/offload.h"

namespace sim::offload {

std::string hybrid_problem(const Shape& shape) {
  if (shape.stride != 0) return "a tensor is updated where its state is; write stride 0";
  return shape_problem(shape);
}

std::vector<Task> hybrid_step(const Shape& shape, const Rates& rates) {
  constexpr double gradient_bytes = 4, parameter_bytes = 4;
  const auto away =
      static_cast<std::int64_t>(shape.fraction * static_cast<double>(shape.parameters));
  std::vector<Task> tasks;
  if (away > 0)
    tasks.push_back(copy(Queue::pcie_down, "gradient down", away, gradient_bytes, rates));
  if (away < shape.parameters) tasks.push_back(update_on_gpu(shape.parameters - away, rates));
  if (away == 0) return tasks;
  Task update = update_on_cpu(away, rates.pinned_bytes, rates);
  update.after = {0};
  Task up = copy(Queue::pcie_up, "parameter up", away, parameter_bytes, rates);
  up.after = {tasks.size()};
  tasks.push_back(std::move(update));
  tasks.push_back(std::move(up));
  return tasks;
}

}  // namespace sim::offload
