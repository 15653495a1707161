#include "sim/cluster/device/overlap.h"

#include <cassert>

namespace sim::device {

double kernel_rate(model::OperationKind kind, const Gpu& gpu, const Profile& profile,
                   int channels) {
  assert(channels >= 0);
  assert(channels < gpu.sms);
  if (channels == 0) return 1;
  switch (kind) {
    case model::OperationKind::gemm:
    case model::OperationKind::attention_forward:
    case model::OperationKind::attention_backward:
      return (1.0 - static_cast<double>(channels) / gpu.sms) * profile.overlap.compute;
    default:
      return profile.overlap.memory;
  }
}

double collective_rate(const Profile& profile, bool across_nodes) {
  return across_nodes ? profile.overlap.collective_network : profile.overlap.collective_node;
}

}  // namespace sim::device
