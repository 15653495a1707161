// hybrid-overlap.cpp — Megatron-LM's HybridDeviceOptimizer with --overlap-cpu-optimizer-d2h-h2d:
// one optimizer for each tensor (here: for each sub-group). The next gradient comes down, the
// current one is updated, and the previous parameters go up at the same time.
//
//     down  1 2 3        cpu    1 2 3        up       1 2 3
#include "sim/job/offload/offload.h"

namespace sim::offload {

std::vector<Work> hybrid_overlap_step(const OptimizerShard& shape) {
  constexpr std::int64_t gradient_bytes = 4, parameter_bytes = 4;
  constexpr std::size_t ahead = 2;  // tensors whose gradients come down ahead of their update
  const auto on_cpu =
      static_cast<std::int64_t>(shape.fraction * static_cast<double>(shape.parameters));
  const std::vector<std::int64_t> sizes = sub_groups(on_cpu, shape.sub_group);
  std::vector<Work> step;
  std::vector<std::size_t> gradient;  // by tensor: the task that copies its gradient down
  const auto bring = [&] {
    if (gradient.size() == sizes.size()) return;
    const std::int64_t size = sizes[gradient.size()];
    gradient.push_back(step.size());
    step.push_back(copy(Queue::pcie_down, "gradient down", size, gradient_bytes, gradient_bytes));
  };
  for (std::size_t i = 0; i < ahead; ++i) bring();
  if (on_cpu < shape.parameters) step.push_back(update_on_gpu(shape.parameters - on_cpu));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Work update = update_on_cpu(sizes[i], shape.traffic);
    update.after = {gradient[i]};
    const std::size_t updated = step.size();
    step.push_back(std::move(update));
    bring();
    Work up = copy(Queue::pcie_up, "parameter up", sizes[i], parameter_bytes, parameter_bytes);
    up.after = {updated};
    step.push_back(std::move(up));
  }
  return step;
}

}  // namespace sim::offload
