#include "sim/topology/cluster.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace sim::topology {
namespace {

constexpr int most_gpus = 1 << 24;

struct Checker {
  std::vector<std::string> found;

  void expect(bool good, const char* rule) {
    if (!good) found.emplace_back(rule);
  }
};

void check_node(Checker& check, const Node& node) {
  check.expect(node.gpus >= 1 && node.gpus <= 1024, "node.gpus must be 1 ... 1024");
  if (node.interconnect == GpuInterconnect::nvswitch) {
    check.expect(node.nvlinks_per_gpu >= 1, "node.nvlinks_per_gpu must be at least 1 (nvswitch)");
  }
  if (node.interconnect == GpuInterconnect::mesh) {
    check.expect(node.nvlinks_per_pair >= 1, "node.nvlinks_per_pair must be at least 1 (mesh)");
    check.expect(node.gpus <= 16, "a mesh joins at most 16 GPUs; use nvswitch");
  }
  if (node.interconnect != GpuInterconnect::pcie) {
    check.expect(node.nvlink.bytes_per_second > 0, "node.nvlink must be a bandwidth above 0");
  }
  check.expect(node.pcie.bytes_per_second > 0, "node.pcie must be a bandwidth above 0");
  check.expect(node.nics >= 0 && node.nics <= 1024, "node.nics must be 0 ... 1024");
  if (node.nics == 0) {
    check.expect(node.nic_of_gpu.empty(), "node.nic_of_gpu names a NIC, but node.nics is 0");
    return;
  }
  check.expect(node.nic.bytes_per_second > 0, "node.nic must be a bandwidth above 0");
  check.expect(std::ssize(node.nic_of_gpu) == node.gpus,
               "node.nic_of_gpu must have one entry for each GPU of the node");
  check.expect(
      std::ranges::all_of(node.nic_of_gpu, [&](int nic) { return nic >= 0 && nic < node.nics; }),
      "node.nic_of_gpu must name NICs from 0 to node.nics - 1");
}

}  // namespace

std::vector<int> nics_of_gpu(const Node& node, int gpu) {
  if (node.nics == 0) return {};
  const int own = node.nic_of_gpu[static_cast<std::size_t>(gpu)];
  std::vector<int> all = {own};
  for (int nic = own + 1; nic < node.nics; ++nic) {
    if (std::ranges::count(node.nic_of_gpu, nic) > 0) break;
    all.push_back(nic);
  }
  return all;
}

std::vector<std::string> problems(const Cluster& cluster) {
  Checker check;
  check_node(check, cluster.node);
  check.expect(cluster.nodes >= 1, "nodes must be at least 1");
  check.expect(cluster.nodes <= most_gpus / std::max(1, cluster.node.gpus),
               "more than 16777216 GPUs");
  if (cluster.nodes > 1) {
    check.expect(cluster.node.nics >= 1, "several nodes need at least one NIC each (node.nics)");
  }
  const Fabric& fabric = cluster.fabric;
  if (fabric.kind != FabricKind::single_switch) {
    check.expect(fabric.nodes_per_leaf >= 1 && fabric.nodes_per_leaf <= most_gpus,
                 "fabric.nodes_per_leaf must be at least 1");
    check.expect(std::isfinite(fabric.oversubscription) && fabric.oversubscription >= 0.01 &&
                     fabric.oversubscription <= 1000,
                 "fabric.oversubscription must be 0.01 ... 1000 (1: full bisection)");
  }
  check.expect(fabric.leaf_hop.ps >= 0, "fabric.leaf_hop must not be negative");
  check.expect(fabric.spine_hop.ps >= 0, "fabric.spine_hop must not be negative");
  return std::move(check.found);
}

Cluster first_nodes(Cluster cluster, int nodes) {
  assert(nodes >= 1);
  assert(nodes <= cluster.nodes);
  // Trunks are sized by the nodes a leaf has room for, not by those that are there.
  cluster.nodes = nodes;
  return cluster;
}

std::string_view name(GpuInterconnect interconnect) {
  constexpr std::array<std::string_view, 3> names = {"nvswitch", "mesh", "pcie"};
  return names[static_cast<std::size_t>(interconnect)];
}

std::string_view name(HostCpu cpu) {
  constexpr std::array<std::string_view, 3> names = {"intel", "amd", "arm"};
  return names[static_cast<std::size_t>(cpu)];
}

std::string_view name(FabricKind kind) {
  constexpr std::array<std::string_view, 3> names = {"single_switch", "fat_tree", "rail_optimised"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace sim::topology
