// host.cpp — what the CPUs of a node do for its GPUs, from data sheets.
//
// Updates on the CPU are bound by memory: the cores of a GPU's process ask for it, and the node's
// memory carries it for all of them, one after the other.
//
// Sources of the shares: calibration/hosts.csv, which names the runs. Memory carried 177 of 204.8
// GB/s (EPYC 7543P) and 475 of 614 (two Xeons); the eight cores of a rank drew 271 GB/s. Pinned
// copies over PCIe 4 x16 reach 24 to 26 of 31.5 GB/s, over PCIe 5 50 to 56 of 63.
#include "sim/topology/host.h"

#include <algorithm>

namespace sim::topology {

HostRates host_rates(const Node& node, int ranks) {
  constexpr double copied = 0.8, carried = 0.8;
  constexpr double core = 33.9e9;                           // bytes per second
  constexpr std::int64_t socket_default = 205'000'000'000;  // eight channels of DDR4-3200
  HostRates rates;
  rates.copy = node.host_copy.bytes_per_second > 0
                   ? node.host_copy
                   : Bandwidth{static_cast<std::int64_t>(
                         copied * static_cast<double>(node.pcie.bytes_per_second))};
  const double sheet = static_cast<double>(node.cpu_memory_bandwidth.bytes_per_second > 0
                                               ? node.cpu_memory_bandwidth.bytes_per_second
                                               : socket_default * node.sockets);
  double seconds_a_byte = std::min(ranks, node.gpus) / (carried * sheet);
  if (node.cpu_cores > 0) seconds_a_byte += node.gpus / (core * node.cpu_cores);
  rates.memory = Bandwidth{static_cast<std::int64_t>(1 / seconds_a_byte)};
  return rates;
}

}  // namespace sim::topology
