#include "sim/cluster/topology/graph.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace sim::topology {
namespace {

void add_node(const Cluster& cluster, const NodeLayout& layout, int index, GraphBuilder& parts) {
  const Node& node = cluster.node;
  const std::size_t first = parts.vertices.size();
  const auto at = [&](int offset) { return first + static_cast<std::size_t>(offset); };
  const auto add = [&](VertexKind kind, int i) { parts.vertices.push_back({kind, index, i}); };
  for (int i = 0; i < layout.gpus; ++i) add(VertexKind::gpu, i);
  if (layout.has_nvswitch) add(VertexKind::nvswitch, 0);
  for (int i = 0; i < layout.pcie_switches; ++i) add(VertexKind::pcie_switch, i);
  for (int i = 0; i < layout.sockets; ++i) add(VertexKind::host, i);
  for (int i = 0; i < layout.nics; ++i) add(VertexKind::nic, i);

  const auto links = [&](int count) { return Bandwidth{count * node.nvlink.bytes_per_second}; };
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (layout.has_nvswitch) {
      connect(parts, at(gpu), at(layout.nvswitch()), LinkKind::nvlink, links(node.nvlinks_per_gpu));
    }
    for (int peer = gpu + 1; node.interconnect == GpuInterconnect::mesh && peer < node.gpus;
         ++peer) {
      connect(parts, at(gpu), at(peer), LinkKind::nvlink, links(node.nvlinks_per_pair));
    }
    const int own = layout.switch_of_gpu[static_cast<std::size_t>(gpu)];
    connect(parts, at(gpu), at(layout.pcie_switch(own)), LinkKind::pcie, node.pcie);
  }
  if (node.interconnect == GpuInterconnect::direct) {
    for (const NvlinkPair& pair : node.pairs) {
      connect(parts, at(pair.a), at(pair.b), LinkKind::nvlink, links(pair.links));
    }
  }
  for (int i = 0; i < layout.pcie_switches; ++i) {
    const int socket = layout.socket_of_switch[static_cast<std::size_t>(i)];
    connect(parts, at(layout.pcie_switch(i)), at(layout.host(socket)), LinkKind::pcie, node.pcie);
  }
  const Bandwidth between = node.socket_link.bytes_per_second > 0 ? node.socket_link : node.pcie;
  for (int a = 0; a < layout.sockets; ++a) {
    for (int b = a + 1; b < layout.sockets; ++b) {
      connect(parts, at(layout.host(a)), at(layout.host(b)), LinkKind::pcie, between);
    }
  }
  for (int nic = 0; nic < layout.nics; ++nic) {
    const int pcie_switch = layout.switch_of_nic[static_cast<std::size_t>(nic)];
    connect(parts, at(layout.pcie_switch(pcie_switch)), at(layout.nic(nic)), LinkKind::pcie,
            node.pcie);
  }
}

// The socket of each of `count` GPUs or NICs: as given, else distributed evenly in order.
std::vector<int> sockets_of(const std::vector<int>& said, int count, int sockets) {
  std::vector<int> all = said;
  for (int i = 0; said.empty() && i < count; ++i) all.push_back(i * sockets / count);
  return all;
}

// Whether the condition affects a cable that ends at this vertex.
bool touches(const Condition& c, const Vertex& v) {
  if (c.leaf >= 0) return v.kind == VertexKind::leaf && v.index == c.leaf;
  if (c.spine >= 0) return v.kind == VertexKind::spine && v.index == c.spine;
  if (v.node != c.node) return false;
  if (c.nic >= 0) return v.kind == VertexKind::nic && v.index == c.nic;
  if (c.gpu >= 0) return v.kind == VertexKind::gpu && v.index == c.gpu;
  return v.kind == VertexKind::gpu || v.kind == VertexKind::nic;
}

// The capacity that conditions leave: of a GPU's NVLinks, a NIC's port, all of these of a node, a
// leaf's cables to the spines, or a spine's cables.
bool is_part(const Condition& c, const Link& link, const Vertex& from, const Vertex& to) {
  if (c.leaf >= 0 && (from.node >= 0 || to.node >= 0)) return false;
  if (c.node >= 0 && c.nic < 0 && c.gpu < 0)
    return link.kind == LinkKind::nvlink || link.kind == LinkKind::network;
  const bool of_gpu = c.node >= 0 && c.nic < 0;
  return link.kind == (of_gpu ? LinkKind::nvlink : LinkKind::network);
}

void apply_conditions(const Cluster& cluster, GraphBuilder& parts) {
  for (const Condition& c : cluster.conditions) {
    if (c.bandwidth == 1) continue;
    for (std::size_t i = 0; i < parts.links.size(); ++i) {
      const Vertex& from = parts.vertices[static_cast<std::size_t>(parts.ends[i].first)];
      const Vertex& to = parts.vertices[static_cast<std::size_t>(parts.ends[i].second)];
      Link& link = parts.links[i];
      if (!(touches(c, from) || touches(c, to)) || !is_part(c, link, from, to)) continue;
      // No route crosses a failed part, so its capacity only has to be above 0.
      const double left = static_cast<double>(link.capacity.bytes_per_second) * c.bandwidth;
      link.capacity = {std::max<std::int64_t>(1, std::llround(left))};
    }
  }
}

}  // namespace

NodeLayout::NodeLayout(const Node& node)
    : gpus(node.gpus),
      nics(node.nics),
      pcie_switches(0),
      sockets(node.sockets),
      has_nvswitch(node.interconnect == GpuInterconnect::nvswitch) {
  const std::vector<int> gpu_socket = sockets_of(node.socket_of_gpu, gpus, sockets);
  const std::vector<int> nic_socket = sockets_of(node.socket_of_nic, nics, sockets);
  // GPUs that name the same NIC share its PCIe switch. An unnamed NIC uses the switch of the NIC
  // before it on its socket.
  for (int nic = 0; nic < nics; ++nic) {
    const int socket = nic_socket[static_cast<std::size_t>(nic)];
    if (nic == 0 || std::ranges::count(node.nic_of_gpu, nic) > 0 ||
        socket_of_switch.back() != socket) {
      socket_of_switch.push_back(socket);
    }
    switch_of_nic.push_back(static_cast<int>(socket_of_switch.size()) - 1);
  }
  // A GPU whose NIC is on another socket shares a switch with the GPUs of its socket that name the
  // same NIC.
  std::vector<std::pair<int, int>> far;  // NIC and socket of the switches below
  const std::size_t near = socket_of_switch.size();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const int socket = gpu_socket[static_cast<std::size_t>(gpu)];
    const int nic = nics == 0 ? -1 : node.nic_of_gpu[static_cast<std::size_t>(gpu)];
    if (nic >= 0 && nic_socket[static_cast<std::size_t>(nic)] == socket) {
      switch_of_gpu.push_back(switch_of_nic[static_cast<std::size_t>(nic)]);
      continue;
    }
    auto found = std::ranges::find(far, std::pair{nic, socket});
    if (found == far.end()) {
      far.emplace_back(nic, socket);
      socket_of_switch.push_back(socket);
      found = far.end() - 1;
    }
    switch_of_gpu.push_back(static_cast<int>(near + static_cast<std::size_t>(found - far.begin())));
  }
  pcie_switches = static_cast<int>(socket_of_switch.size());
}

void connect(GraphBuilder& parts, std::size_t a, std::size_t b, LinkKind kind, Bandwidth capacity,
             Duration latency_up, Duration latency_down) {
  const auto add = [&](std::size_t from, std::size_t to, Duration latency) {
    parts.links.push_back({kind, static_cast<int>(parts.links.size()), capacity, latency});
    parts.ends.emplace_back(static_cast<int>(from), static_cast<int>(to));
  };
  add(a, b, latency_up);
  add(b, a, latency_down);
}

GraphBuilder build_parts(const Cluster& cluster) {
  assert(problems(cluster).empty());
  const NodeLayout layout(cluster.node);
  GraphBuilder parts;
  parts.vertices.reserve(static_cast<std::size_t>(cluster.nodes * layout.size()));
  add_node(cluster, layout, 0, parts);
  // Large clusters have many links: each node's own, and a cable for each NIC.
  const std::size_t links = static_cast<std::size_t>(cluster.nodes) *
                            (parts.links.size() + 2 * static_cast<std::size_t>(layout.nics) + 4);
  parts.links.reserve(links);
  parts.ends.reserve(links);
  for (int i = 1; i < cluster.nodes; ++i) add_node(cluster, layout, i, parts);
  for (const FabricEntry& fabric : fabric_catalog()) {
    if (cluster.nodes > 1 && fabric.kind == cluster.fabric.kind) fabric.build(cluster, parts);
  }
  apply_conditions(cluster, parts);
  return parts;
}

Graph build_graph(const Cluster& cluster) {
  const GraphBuilder parts = build_parts(cluster);
  Graph graph;
  for (const Vertex& vertex : parts.vertices) boost::add_vertex(vertex, graph);
  for (std::size_t i = 0; i < parts.links.size(); ++i)
    boost::add_edge(static_cast<std::size_t>(parts.ends[i].first),
                    static_cast<std::size_t>(parts.ends[i].second), parts.links[i], graph);
  return graph;
}

std::string label(const Vertex& vertex) {
  constexpr std::array<std::string_view, 8> names = {"gpu", "nvswitch", "pcie switch", "host",
                                                     "nic", "leaf",     "spine",       "core"};
  std::string text(names[static_cast<std::size_t>(vertex.kind)]);
  text += " " + std::to_string(vertex.index);
  return vertex.node < 0 ? text : "node " + std::to_string(vertex.node) + " " + text;
}

}  // namespace sim::topology
