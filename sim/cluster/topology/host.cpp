// host.cpp — what the CPUs of a node do for its GPUs, from data sheets and the levels that CPUs
// reach of them (calibration/hosts.csv).
//
// Updates on the CPU are bound by memory: the cores of a GPU's process ask for it, and the node's
// memory carries it for all of them, one after the other.
#include "sim/cluster/topology/host.h"

#include <algorithm>

namespace sim::topology {

HostRates host_rates(const Node& node, int ranks) {
  const auto rate = [](Bandwidth b) { return static_cast<double>(b.bytes_per_second); };
  const HostLevels& level = node.host;
  HostRates rates;
  rates.copy = node.host_copy.bytes_per_second > 0
                   ? node.host_copy
                   : Bandwidth{static_cast<std::int64_t>(level.copied * rate(node.pcie))};
  rates.pageable = level.pageable.bytes_per_second > 0 ? level.pageable : rates.copy;
  const double sheet = node.cpu_memory_bandwidth.bytes_per_second > 0
                           ? rate(node.cpu_memory_bandwidth)
                           : node.sockets * rate(level.socket_memory);
  double seconds_a_byte = std::min(ranks, node.gpus) / (level.carried * sheet);
  if (node.cpu_cores > 0 && level.core.bytes_per_second > 0)
    seconds_a_byte += node.gpus / (rate(level.core) * node.cpu_cores);
  rates.memory = Bandwidth{static_cast<std::int64_t>(1 / seconds_a_byte)};
  return rates;
}

}  // namespace sim::topology
