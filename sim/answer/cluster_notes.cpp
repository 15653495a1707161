#include "sim/answer/cluster_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/cluster/device/kernel.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::answer {

namespace {

// Conditions of nodes and leaves that no node of the job has.
void add_conditions_outside(const topology::Cluster& cluster, std::int64_t gpus,
                            std::vector<std::string>& notes) {
  const int nodes = topology::nodes_of(static_cast<int>(gpus), cluster.node.gpus);
  std::vector<int> hosts;
  for (int node = 0; node < nodes; ++node) hosts.push_back(topology::host_of(cluster, node));
  const auto inside = [&](int from, int count) {
    return std::ranges::any_of(hosts,
                               [&](int host) { return host >= from && host < from + count; });
  };
  const auto outside = [&](const char* part, int number) {
    notes.push_back(fmt::format(
        "{0} {1} is not in this job: the condition changes nothing; the job's {2} {3}", part,
        number, counted(nodes, "node"),
        !cluster.hosts.empty() ? fmt::format("{} those of host=[...]", nodes == 1 ? "is" : "are")
        : nodes == 1           ? std::string("is 0")
                               : fmt::format("are 0 to {}", nodes - 1)));
  };
  for (const topology::Condition& one : cluster.conditions) {
    if (one.node >= 0 && !inside(one.node, 1)) outside("node", one.node);
    const int of_leaf = cluster.fabric.nodes_per_leaf;
    if (one.leaf >= 0 && of_leaf > 0 &&
        !inside(topology::first_node_of_leaf(cluster, one.leaf), of_leaf))
      outside("leaf", one.leaf);
  }
}

}  // namespace

std::vector<std::string> cluster_notes(const Site& site, std::int64_t gpus) {
  std::vector<std::string> notes = site.machine.notes;
  const device::Gpu& gpu = site.machine.gpu;
  const device::GemmProfile& gemm = site.profile.device.gemm;
  if (const double slowdown = device::power_slowdown(gpu, gemm); slowdown > 1)
    notes.push_back(fmt::format(
        "limited to {} of {} W (gpu.power_w): matrix products take {:.2f} times as long",
        shortest(gpu.power_w), shortest(device::measured_power_w(gpu, gemm)), slowdown));
  const topology::Cluster& cluster = site.machine.cluster;
  if (std::string slot = slot_note(site); gpus > cluster.node.gpus && !slot.empty())
    notes.push_back(std::move(slot));
  add_conditions_outside(cluster, gpus, notes);
  return notes;
}

std::string slot_note(const Site& site) {
  const topology::Node& node = site.machine.cluster.node;
  if (!topology::nics_exceed_slots(node)) return "";
  return fmt::format(
      "a NIC of {0:.0f} GB/s (node.nic_bandwidth) sits on PCIe of {1:.0f} GB/s, which carries "
      "{2:.0f}: a faster NIC needs a faster slot, node.pcie_bandwidth={0:.0f}GB/s",
      gb_per_second(node.nic), gb_per_second(node.pcie),
      gb_per_second(node.pcie) * site.profile.communication.achieved.pcie);
}

bool draws_paths(const topology::Cluster& cluster, std::int64_t gpus) {
  const std::int64_t of_leaf = std::int64_t{cluster.fabric.nodes_per_leaf} * cluster.node.gpus;
  return cluster.fabric.kind == topology::FabricKind::leaf_spine && gpus > of_leaf;
}

std::string paths_note(const topology::Cluster& cluster, std::int64_t gpus) {
  if (!draws_paths(cluster, gpus)) return "";
  return fmt::format(
      "one draw of the paths: the hash of fabric.hash_seed={} spreads flows over the spines; "
      "another seed gives another time, and --seeds 8 shows the spread",
      cluster.fabric.hash_seed);
}

}  // namespace sim::answer
