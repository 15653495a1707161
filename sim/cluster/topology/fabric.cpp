#include "sim/cluster/topology/fabric.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sim::topology {

void single_switch(const Cluster& cluster, GraphBuilder& parts);
void fat_tree(const Cluster& cluster, GraphBuilder& parts);
void rail_optimised(const Cluster& cluster, GraphBuilder& parts);
void three_level(const Cluster& cluster, GraphBuilder& parts);
void rail_only(const Cluster& cluster, GraphBuilder& parts);
void leaf_spine(const Cluster& cluster, GraphBuilder& parts);
void dragonfly(const Cluster& cluster, GraphBuilder& parts);
void torus(const Cluster& cluster, GraphBuilder& parts);

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
      FabricEntry{FabricKind::three_level, "three-level",
                  "leaves in pods, pods joined by a core level", "Al-Fares et al., SIGCOMM 2008",
                  three_level},
      FabricEntry{FabricKind::rail_only, "rail-only",
                  "a switch per rail and none between them; NVLink changes rails",
                  "Wang et al., arXiv:2307.12169", rail_only},
      FabricEntry{FabricKind::leaf_spine, "leaf-spine",
                  "Ethernet: separate spines, each flow on the one its hash names",
                  "RFC 2992 (equal-cost multi-path)", leaf_spine},
      FabricEntry{FabricKind::dragonfly, "dragonfly",
                  "groups of routers that are all joined, groups joined to all others",
                  "Kim et al., ISCA 2008", dragonfly},
      FabricEntry{FabricKind::torus, "torus",
                  "a router per node, joined to its neighbours along each dimension",
                  "Dally and Towles, Principles and Practices of Interconnection Networks", torus},
  };
  return table;
}

std::size_t nic_vertex(const NodeLayout& layout, int node, int nic) {
  return static_cast<std::size_t>(node) * static_cast<std::size_t>(layout.size()) +
         static_cast<std::size_t>(layout.nic(nic));
}

std::size_t add_switch(GraphBuilder& parts, VertexKind kind, int index) {
  parts.vertices.push_back({kind, -1, index});
  return parts.vertices.size() - 1;
}

void join_leaf(const Cluster& cluster, GraphBuilder& parts, std::size_t nic, std::size_t leaf) {
  connect(parts, nic, leaf, LinkKind::network, cluster.node.nic, cluster.fabric.leaf_hop);
}

Leaves add_leaves(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const int per_leaf = cluster.fabric.nodes_per_leaf;
  const Leaves leaves{parts.vertices.size(), leaf_count(cluster)};
  for (int leaf = 0; leaf < leaves.count; ++leaf) add_switch(parts, VertexKind::leaf, leaf);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, parts, nic_vertex(layout, node, nic), leaves.vertex(node / per_leaf));
    }
  }
  return leaves;
}

void join_spine(const Cluster& cluster, GraphBuilder& parts, std::size_t leaf, std::size_t spine,
                int nics) {
  const double down = static_cast<double>(cluster.node.nic.bytes_per_second) * nics;
  join(parts, leaf, spine, down / cluster.fabric.oversubscription, cluster.fabric.spine_hop);
}

void join(GraphBuilder& parts, std::size_t lower, std::size_t upper, double capacity, Duration hop,
          Duration hop_down) {
  const Bandwidth rate{std::max<std::int64_t>(1, std::llround(capacity))};
  connect(parts, lower, upper, LinkKind::network, rate, hop, hop_down);
}

}  // namespace sim::topology
