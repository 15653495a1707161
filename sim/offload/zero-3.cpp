// zero-3.cpp — DeepSpeed's ZeRO-3 with its optimizer on the CPU: sub-group by sub-group the update
// and the blocking copy of the new 16-bit parameters. Of what stays on the GPU ("Twin-Flow") the
// update is issued first and runs meanwhile.
//
//     cpu   U1   U2   U3
//     up      c1   c2   c3         (inside the update: a blocking copy holds the thread)
#include "sim/offload/offload.h"

namespace sim::offload {

std::string zero_3_problem(const Shape& shape) {
  if (shape.stride != 0) return "all of it is updated on the CPU; write stride 0, or method deep";
  return shape_problem(shape);
}

std::vector<Task> zero_3_step(const Shape& shape, const Rates& rates) {
  std::vector<Task> tasks;
  const Split parts = split(shape);
  if (parts.rest > 0) tasks.push_back(update_on_gpu(parts.rest, rates));
  for (const std::int64_t size : parts.away)
    tasks.push_back(update_on_cpu(size, rates.blocking_bytes, rates));
  return tasks;
}

}  // namespace sim::offload
