// host.h — what the CPUs of a node do for its GPUs.
#pragma once

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// What a node's CPUs give each of `ranks` GPUs that work beside each other.
struct HostRates {
  Bandwidth copy{};      // pinned, one direction
  Bandwidth pageable{};  // down through memory that is not pinned, and widened
  Bandwidth memory{};    // that updates on the CPU draw
};
HostRates host_rates(const Node& node, int ranks);

}  // namespace sim::topology
