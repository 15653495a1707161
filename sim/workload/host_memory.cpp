#include "sim/workload/host_memory.h"

#include <algorithm>

#include "sim/workload/parts.h"

namespace sim::workload {

double host_bytes(const Plan& plan) {
  if (plan.optimizer.offload_fraction == 0) return 0;
  constexpr double bytes = 16;
  const model::Architecture& a = plan.architecture;
  int most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    int own = 0;
    for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk)
      own += plan.chunk_layers(stage, chunk);
    most = std::max(most, own);
  }
  const auto all = static_cast<double>(model::parameters(a));
  const auto ends = static_cast<double>(model::embedding_parameters(a, a.vocab));
  const double share = static_cast<double>(most) / static_cast<double>(a.layers);
  const double elements = share * (all - ends) + ends;
  const double ranks = static_cast<double>(plan.mesh.dp) * plan.mesh.cp * plan.mesh.tp;
  return bytes * plan.optimizer.offload_fraction * elements / ranks;
}

}  // namespace sim::workload
