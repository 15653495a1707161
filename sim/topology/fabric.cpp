#include "sim/topology/fabric.h"

#include <array>
#include <cmath>

namespace sim::topology {

void single_switch(const Cluster& cluster, Graph& graph);
void fat_tree(const Cluster& cluster, Graph& graph);
void rail_optimised(const Cluster& cluster, Graph& graph);

// To add a kind of fabric: write topology/<name>.cpp, then add its two lines here.
std::span<const FabricEntry> fabric_catalog() {
  static constexpr std::array table{
      FabricEntry{FabricKind::single_switch, "single-switch", "every NIC on one ideal switch",
                  "the non-blocking crossbar", single_switch},
      FabricEntry{FabricKind::fat_tree, "fat-tree",
                  "all NICs of a node on one leaf, leaves joined by a spine level",
                  "Leiserson 1985, IEEE Trans. Comput. C-34", fat_tree},
      FabricEntry{FabricKind::rail_optimised, "rail-optimised",
                  "NIC r of a unit's nodes on leaf r, leaves joined by a spine level",
                  "NVIDIA DGX SuperPOD H100 reference architecture", rail_optimised},
  };
  return table;
}

std::size_t nic_vertex(const NodeLayout& layout, int node, int nic) {
  return static_cast<std::size_t>(node) * static_cast<std::size_t>(layout.size()) +
         static_cast<std::size_t>(layout.nic(nic));
}

std::size_t add_switch(Graph& graph, VertexKind kind, int index) {
  return boost::add_vertex(Vertex{kind, -1, index}, graph);
}

void join_leaf(const Cluster& cluster, Graph& graph, std::size_t nic, std::size_t leaf) {
  connect(graph, nic, leaf, LinkKind::network, cluster.node.nic, cluster.fabric.leaf_hop);
}

void join_spine(const Cluster& cluster, Graph& graph, std::size_t leaf, std::size_t spine,
                int nics) {
  const double down = static_cast<double>(cluster.node.nic.bytes_per_second) * nics;
  const Bandwidth up{std::llround(down / cluster.fabric.oversubscription)};
  connect(graph, leaf, spine, LinkKind::network, up, cluster.fabric.spine_hop);
}

}  // namespace sim::topology
