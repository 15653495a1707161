// hybrid.cpp — Megatron-LM's HybridDeviceOptimizer: whole parameters on the CPU. All copies of
// gradients down are queued, the GPU updates its share, then the CPU updates its own, and the fp32
// parameters go up.
//
//     one optimizer      down [all]    cpu    [all]    up      [all]
#include "sim/job/offload/offload.h"

namespace sim::offload {

std::string hybrid_problem(const OptimizerShard& shape) {
  if (shape.stride != 0) return "a tensor is updated where its state is; write stride 0";
  return shape_problem(shape);
}

std::vector<Work> hybrid_step(const OptimizerShard& shape) {
  constexpr std::int64_t gradient_bytes = 4, parameter_bytes = 4;
  const auto on_cpu =
      static_cast<std::int64_t>(shape.fraction * static_cast<double>(shape.parameters));
  std::vector<Work> step;
  if (on_cpu > 0)
    step.push_back(copy(Queue::pcie_down, "gradient down", on_cpu, gradient_bytes, gradient_bytes));
  if (on_cpu < shape.parameters) step.push_back(update_on_gpu(shape.parameters - on_cpu));
  if (on_cpu == 0) return step;
  Work update = update_on_cpu(on_cpu, shape.traffic);
  update.after = {0};
  Work up = copy(Queue::pcie_up, "parameter up", on_cpu, parameter_bytes, parameter_bytes);
  up.after = {step.size()};
  step.push_back(std::move(update));
  step.push_back(std::move(up));
  return step;
}

}  // namespace sim::offload
