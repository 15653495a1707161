// fabric.h — shared steps of the kinds of fabric: find NICs, add switches and trunks.
#pragma once

#include "sim/cluster/topology/graph.h"

namespace sim::topology {

std::size_t nic_vertex(const NodeLayout& layout, int node, int nic);
std::size_t add_switch(GraphBuilder& parts, VertexKind kind, int index);

// Joins a NIC to its leaf. Crossing the leaf costs leaf_hop, charged on the way up.
void join_leaf(const Cluster& cluster, GraphBuilder& parts, std::size_t nic, std::size_t leaf);

// A leaf switch for every nodes_per_leaf nodes, with all their NICs. The vertices of leaves are
// consecutive.
struct Leaves {
  std::size_t first = 0;
  int count = 0;

  std::size_t vertex(int leaf) const { return first + static_cast<std::size_t>(leaf); }
};
Leaves add_leaves(const Cluster& cluster, GraphBuilder& parts);

// Joins a leaf with `nics` downward ports to the spine level, with 1 / oversubscription of their
// capacity. Leaf - spine - leaf costs spine_hop, charged on the way up.
void join_spine(const Cluster& cluster, GraphBuilder& parts, std::size_t leaf, std::size_t spine,
                int nics);

// The same with an explicit capacity, and explicit latencies up and down.
void join(GraphBuilder& parts, std::size_t lower, std::size_t upper, double capacity, Duration hop,
          Duration hop_down = {});

}  // namespace sim::topology
