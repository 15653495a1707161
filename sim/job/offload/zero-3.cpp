// zero-3.cpp — DeepSpeed's ZeRO-3 with its optimizer on the CPU. Each sub-group is updated, and its
// new 16-bit parameters go up by a blocking copy. The update of the share on the GPU ("Twin-Flow")
// is issued first and runs beside.
//
//     cpu   U1    U2    U3
//     up       c1    c2    c3         (a blocking copy holds the thread)
#include <optional>

#include "sim/job/offload/offload.h"

namespace sim::offload {

std::string zero_3_problem(const OptimizerShard& shape) {
  if (shape.stride != 0) return "all of it is updated on the CPU; write stride 0, or method deep";
  return shape_problem(shape);
}

std::vector<Work> zero_3_step(const OptimizerShard& shape) {
  constexpr std::int64_t parameter_bytes = 2;
  std::vector<Work> step;
  const Split parts = split(shape);
  if (parts.remainder > 0) step.push_back(update_on_gpu(parts.remainder));
  std::optional<std::size_t> copied;
  for (const std::int64_t size : parts.on_cpu) {
    Work update = update_on_cpu(size, shape.traffic);
    if (copied) update.after = {*copied};
    Work up =
        copy(Queue::pcie_up, "parameter up", size, parameter_bytes, shape.traffic.blocking_up);
    up.after = {step.size()};
    step.push_back(std::move(update));
    copied = step.size();
    step.push_back(std::move(up));
  }
  return step;
}

}  // namespace sim::offload
