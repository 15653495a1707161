// graph_builder.h — the parts of a cluster's graph: its vertices, its links, and the places of a
// node's vertices. It is separate from graph.h because Boost's headers compile slowly and few files
// need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

enum class VertexKind : std::uint8_t { gpu, nvswitch, pcie_switch, host, nic, leaf, spine, core };
// measured: not a cable, but the measured rate between two nodes (NodeRates); only in Routes.
enum class LinkKind : std::uint8_t { nvlink, pcie, network, measured };

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  int node = -1;  // -1: a switch of the fabric
  int index = 0;  // among its kind, in its node or in the fabric
};

std::string label(const Vertex& vertex);  // "node 3 gpu 5", "leaf 2"

struct Link {
  LinkKind kind = LinkKind::nvlink;
  int id = 0;
  Bandwidth capacity{};
  Duration latency{};  // in addition to NCCL's own latency of a step
};

// A cluster's vertices and links, before they become a graph. Invariants: (1) to (3) of graph.h.
struct GraphBuilder {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<std::pair<int, int>> ends;  // by link: the vertices from, to
};

// REQUIRES: problems(cluster) is empty.
GraphBuilder build_parts(const Cluster& cluster);

// Adds a cable: one link in each direction.
void connect(GraphBuilder& parts, std::size_t a, std::size_t b, LinkKind kind, Bandwidth capacity,
             Duration latency_up = {}, Duration latency_down = {});

// The places of a node's vertices, relative to its first one.
struct NodeLayout {
  explicit NodeLayout(const Node& node);
  int gpu(int index) const { return index; }
  int nvswitch() const { return gpus; }  // only with has_nvswitch
  int pcie_switch(int index) const { return gpus + (has_nvswitch ? 1 : 0) + index; }
  int host(int socket = 0) const { return pcie_switch(pcie_switches) + socket; }
  int nic(int index) const { return host(sockets) + index; }
  int size() const { return nic(nics); }

  int gpus, nics, pcie_switches, sockets;
  bool has_nvswitch;
  std::vector<int> switch_of_nic, switch_of_gpu;  // the PCIe switch of each NIC, and of each GPU
  std::vector<int> socket_of_switch;
};

}  // namespace sim::topology
