// host.cpp — the rates of a node's CPUs, from data sheets and the measured shares of them
// (calibration/hosts.csv).
//
// Updates on the CPU are memory-bound. The cores of a GPU's process request data, and the node's
// memory serves all processes; the times of both add up.
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
