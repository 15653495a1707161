// host.h — the rates of a node's CPUs for work on behalf of its GPUs.
#pragma once

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// The rates for each of `ranks` GPUs that work at the same time.
struct HostRates {
  Bandwidth copy{};      // pinned, one direction
  Bandwidth pageable{};  // to memory that is not pinned, widened to fp32
  Bandwidth memory{};    // memory bandwidth for updates on the CPU
};
HostRates host_rates(const Node& node, int ranks);

}  // namespace sim::topology
