// graph.h — a cluster as a graph: GPUs, switches and NICs, joined by links with capacities.
//
//     spine            ┌──────── spine ────────┐         one vertex: see below
//     leaf           leaf 0                  leaf 1
//     NIC          nic    nic              nic    nic
//     PCIe switch   │      │                │      │     one per NIC that GPUs name
//     GPU, host    gpu0 ─ host ─ gpu1      gpu0 ─ host
//                    └── nvswitch ┘          └── ...     or a link between each pair (mesh)
//
// Invariants
// (1) Every cable is two edges, one per direction, each with the full capacity.
// (2) Vertices of node i precede those of node i + 1, in the same order; switches of the fabric
//     come last. Links carry the ids 0 .. links - 1 in the order they were added.
// (3) The graph is strongly connected; a failed part keeps its cables, and no route uses them.
//
// In some kinds (fat trees, rails), a leaf's cables to the spines are one trunk with the sum of
// their capacities, and the spine switches are one vertex. This models adaptive routing that
// spreads traffic perfectly. The profile's network efficiency contains the loss of real routing
// (0-5 % adaptive). Kind leaf_spine keeps the spines separate and routes by hash, so that
// collisions occur: Ethernet, and InfiniBand with static routes.
//
// Leiserson, "Fat-trees: universal networks for hardware-efficient supercomputing", IEEE Trans.
// Comput. C-34 (1985); NVIDIA DGX SuperPOD H100 reference architecture (rail-aligned leaves).
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/graph_builder.h"

namespace sim::topology {

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Link>;

// A kind of fabric. `build` adds its switches and links, which join the NICs of all nodes.
struct FabricEntry {
  FabricKind kind;
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  void (*build)(const Cluster& cluster, GraphBuilder& parts);
};
std::span<const FabricEntry> fabric_catalog();

// REQUIRES: problems(cluster) is empty.
Graph build_graph(const Cluster& cluster);

}  // namespace sim::topology
