// graph.h — a cluster as a graph: GPUs, switches and NICs, joined by links of a capacity.
//
//     spine            ┌──────── spine ────────┐         one vertex: see below
//     leaf           leaf 0                  leaf 1
//     NIC          nic    nic              nic    nic
//     PCIe switch   │      │                │      │     one per NIC that GPUs name
//     GPU, host    gpu0 ─ host ─ gpu1      gpu0 ─ host
//                    └── nvswitch ┘          └── ...     or a link between each pair (mesh)
//
// Invariants
//  (1) Every cable is two edges, one per direction, each with the full capacity.
//  (2) Vertices of node i precede those of node i + 1, in the same order; switches of the fabric
//      come last. Links carry the ids 0 .. links - 1 in the order they were added.
//  (3) The graph is strongly connected; a failed part keeps its cables, and no route uses them.
//
// Where a kind says so (fat trees, rails), a leaf's cables to the spines are one trunk with the sum
// of their capacities, and the spine switches are one vertex: adaptive routing that spreads traffic
// perfectly. What real routing loses is in the profile's network efficiency (0-5 % adaptive). Kind
// leaf_spine keeps the spines apart and routes by hash, so that collisions are seen.
//
// Leiserson, "Fat-trees: universal networks for hardware-efficient supercomputing", IEEE Trans.
// Comput. C-34 (1985); NVIDIA DGX SuperPOD H100 reference architecture (rail-aligned leaves).
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/topology/cluster.h"

namespace sim::topology {

enum class VertexKind : std::uint8_t { gpu, nvswitch, pcie_switch, host, nic, leaf, spine, core };
// measured: no cable, but the rate that was measured between two nodes (NodeRates); only in Routes.
enum class LinkKind : std::uint8_t { nvlink, pcie, network, measured };

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  int node = -1;  // -1: a switch of the fabric
  int index = 0;  // among its kind, in its node or in the fabric
};

struct Link {
  LinkKind kind = LinkKind::nvlink;
  Bandwidth capacity{};
  Duration latency{};  // beyond what NCCL's own latency of a step contains
  int id = 0;
};

// Boost counts the edges of a directed graph by looking at every vertex, so the graph keeps count.
struct LinkCount {
  int links = 0;
};

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Link, LinkCount>;

// A kind of fabric joins the NICs of all nodes; the function adds its switches and links.
struct FabricEntry {
  FabricKind kind;
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  void (*build)(const Cluster& cluster, Graph& graph);
};
std::span<const FabricEntry> fabric_catalog();

// REQUIRES: problems(cluster) is empty.
Graph build_graph(const Cluster& cluster);

// Where the vertices of a node are, relative to its first one.
struct NodeLayout {
  explicit NodeLayout(const Node& node);
  int gpu(int index) const { return index; }
  int nvswitch() const { return gpus; }  // only where has_nvswitch
  int pcie_switch(int index) const { return gpus + (has_nvswitch ? 1 : 0) + index; }
  int host(int socket = 0) const { return pcie_switch(pcie_switches) + socket; }
  int nic(int index) const { return host(sockets) + index; }
  int size() const { return nic(nics); }

  int gpus, nics, pcie_switches, sockets;
  bool has_nvswitch;
  std::vector<int> switch_of_nic, switch_of_gpu;  // the PCIe switch of each NIC, of each GPU
  std::vector<int> socket_of_switch;
};

// Adds a cable: one link each way.
void connect(Graph& graph, std::size_t a, std::size_t b, LinkKind kind, Bandwidth capacity,
             Duration latency_up = {}, Duration latency_down = {});

std::string label(const Vertex& vertex);  // "node 3 gpu 5", "leaf 2"

}  // namespace sim::topology
