#include "sim/topology/graph.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace sim::topology {
namespace {

void add_node(const Cluster& cluster, const NodeLayout& layout, int index, Graph& graph) {
  const Node& node = cluster.node;
  const std::size_t first = boost::num_vertices(graph);
  const auto at = [&](int offset) { return first + static_cast<std::size_t>(offset); };
  const auto add = [&](VertexKind kind, int i) {
    boost::add_vertex(Vertex{kind, index, i}, graph);
  };
  for (int i = 0; i < layout.gpus; ++i) add(VertexKind::gpu, i);
  if (layout.has_nvswitch) add(VertexKind::nvswitch, 0);
  for (int i = 0; i < layout.pcie_switches; ++i) add(VertexKind::pcie_switch, i);
  add(VertexKind::host, 0);
  for (int i = 0; i < layout.nics; ++i) add(VertexKind::nic, i);

  const auto links = [&](int count) { return Bandwidth{count * node.nvlink.bytes_per_second}; };
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (layout.has_nvswitch) {
      connect(graph, at(gpu), at(layout.nvswitch()), LinkKind::nvlink, links(node.nvlinks_per_gpu));
    }
    for (int peer = gpu + 1; node.interconnect == GpuInterconnect::mesh && peer < node.gpus;
         ++peer) {
      connect(graph, at(gpu), at(peer), LinkKind::nvlink, links(node.nvlinks_per_pair));
    }
    const int pcie_switch = node.nics == 0 ? 0
                                           : layout.switch_of_nic[static_cast<std::size_t>(
                                                 node.nic_of_gpu[static_cast<std::size_t>(gpu)])];
    connect(graph, at(gpu), at(layout.pcie_switch(pcie_switch)), LinkKind::pcie, node.pcie);
  }
  for (int i = 0; i < layout.pcie_switches; ++i) {
    connect(graph, at(layout.pcie_switch(i)), at(layout.host()), LinkKind::pcie, node.pcie);
  }
  for (int nic = 0; nic < layout.nics; ++nic) {
    const int pcie_switch = layout.switch_of_nic[static_cast<std::size_t>(nic)];
    connect(graph, at(layout.pcie_switch(pcie_switch)), at(layout.nic(nic)), LinkKind::pcie,
            node.pcie);
  }
}

}  // namespace

NodeLayout::NodeLayout(const Node& node)
    : gpus(node.gpus),
      nics(node.nics),
      pcie_switches(0),
      has_nvswitch(node.interconnect == GpuInterconnect::nvswitch) {
  // GPUs that name the same NIC share its PCIe switch; NICs nobody names follow the one below.
  for (int nic = 0; nic < nics; ++nic) {
    if (nic == 0 || std::ranges::count(node.nic_of_gpu, nic) > 0) ++pcie_switches;
    switch_of_nic.push_back(pcie_switches - 1);
  }
  pcie_switches = std::max(1, pcie_switches);
}

void connect(Graph& graph, std::size_t a, std::size_t b, LinkKind kind, Bandwidth capacity,
             Duration latency_up, Duration latency_down) {
  int& next = graph[boost::graph_bundle].links;
  boost::add_edge(a, b, Link{kind, capacity, latency_up, next++}, graph);
  boost::add_edge(b, a, Link{kind, capacity, latency_down, next++}, graph);
}

Graph build_graph(const Cluster& cluster) {
  assert(problems(cluster).empty());
  const NodeLayout layout(cluster.node);
  Graph graph;
  for (int i = 0; i < cluster.nodes; ++i) add_node(cluster, layout, i, graph);
  if (cluster.nodes == 1) return graph;
  for (const FabricEntry& fabric : fabric_catalog()) {
    if (fabric.kind == cluster.fabric.kind) fabric.build(cluster, graph);
  }
  return graph;
}

std::string label(const Vertex& vertex) {
  constexpr std::array<std::string_view, 7> names = {"gpu", "nvswitch", "pcie switch", "host",
                                                     "nic", "leaf",     "spine"};
  std::string text(names[static_cast<std::size_t>(vertex.kind)]);
  text += " " + std::to_string(vertex.index);
  return vertex.node < 0 ? text : "node " + std::to_string(vertex.node) + " " + text;
}

}  // namespace sim::topology
