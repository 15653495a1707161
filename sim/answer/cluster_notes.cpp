#include "sim/answer/cluster_notes.h"

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/cluster/device/kernel.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::answer {

std::vector<std::string> cluster_notes(const Site& site) {
  std::vector<std::string> notes = site.machine.notes;
  const device::Gpu& gpu = site.machine.gpu;
  const device::GemmProfile& gemm = site.profile.device.gemm;
  if (const double slowdown = device::power_slowdown(gpu, gemm); slowdown > 1)
    notes.push_back(fmt::format(
        "limited to {} of {} W (gpu.power_w): matrix products take {:.2f} times as long",
        shortest(gpu.power_w), shortest(device::measured_power_w(gpu, gemm)), slowdown));
  if (std::string slot = slot_note(site); !slot.empty()) notes.push_back(std::move(slot));
  return notes;
}

std::string slot_note(const Site& site) {
  const topology::Node& node = site.machine.cluster.node;
  if (!topology::nics_exceed_slots(node)) return "";
  const auto gigabytes = [](Bandwidth rate) {
    return static_cast<double>(rate.bytes_per_second) / 1e9;
  };
  return fmt::format(
      "a NIC of {0:.0f} GB/s (node.nic_bandwidth) sits on PCIe of {1:.0f} GB/s, which carries "
      "{2:.0f}: a faster NIC needs a faster slot, node.pcie_bandwidth={0:.0f}GB/s",
      gigabytes(node.nic), gigabytes(node.pcie),
      gigabytes(node.pcie) * site.profile.communication.achieved.pcie);
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
