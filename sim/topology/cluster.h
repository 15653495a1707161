// cluster.h — a cluster as its description states it: nodes, links, switches, NICs. The numbers
// come from topologies/*.textproto; graph.h turns them into a Boost graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace sim::topology {

enum class GpuInterconnect : std::uint8_t { nvswitch, mesh, pcie };
enum class HostCpu : std::uint8_t { intel, amd, arm };
enum class FabricKind : std::uint8_t { single_switch, fat_tree, rail_optimised };

struct Node {
  int gpus = 8;
  GpuInterconnect interconnect = GpuInterconnect::nvswitch;
  int nvlinks_per_gpu = 0;   // links of one GPU (nvswitch), or
  int nvlinks_per_pair = 0;  // links between each pair (mesh)
  Bandwidth nvlink{};        // one link, one direction, raw
  Bandwidth pcie{};          // GPU to its PCIe switch or root, one direction, raw
  int nics = 0;
  Bandwidth nic{};              // one NIC, one direction, raw
  std::vector<int> nic_of_gpu;  // nearest NIC of each GPU; size gpus
  HostCpu cpu = HostCpu::intel;
};

struct Fabric {
  FabricKind kind = FabricKind::fat_tree;
  int nodes_per_leaf = 0;         // nodes whose NICs share one leaf (rail: one leaf per rail)
  double oversubscription = 1.0;  // down-link capacity of a leaf over its up-link capacity
  Duration leaf_hop{};            // extra latency of one leaf crossing
  Duration spine_hop{};           // extra latency of leaf - spine - leaf beyond one leaf
};

struct Cluster {
  std::string name;
  int nodes = 1;
  Node node;
  Fabric fabric;

  int gpus() const { return nodes * node.gpus; }
};

// NICs that a GPU of the node owns, ascending: the one it names in nic_of_gpu and those above it
// that no GPU names (nodes with several NICs per GPU). Empty: the node has none.
std::vector<int> nics_of_gpu(const Node& node, int gpu);

// Every rule that the cluster breaks, each with what would do. A cluster without problems has a
// graph, and a route between every two of its GPUs.
std::vector<std::string> problems(const Cluster& cluster);

// The first `nodes` nodes and the switches they need. Paths between them cross links of the same
// kinds, capacities and latencies as in the whole cluster, so a small job on a large cluster need
// not build all of it. REQUIRES: 1 <= nodes <= cluster.nodes.
Cluster first_nodes(Cluster cluster, int nodes);

std::string_view name(GpuInterconnect interconnect);
std::string_view name(HostCpu cpu);
std::string_view name(FabricKind kind);

}  // namespace sim::topology
