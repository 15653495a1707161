// rail-optimised.cpp — a unit of `nodes_per_leaf` nodes has one leaf per rail: leaf r joins NIC r
// of each of its nodes. Other rails and other units are reached over a spine level.
//
//                  spine                   same rail, same unit: one switch between two NICs
//         ┌──────┬───┴──┬──────┐           leaf trunk = nodes_per_leaf x NIC rate /
//      leaf 0  leaf 1  leaf 2  leaf 3                   oversubscription
//      rail 0  rail 1  rail 0  rail 1      bisection between halves of the units = half of the
//        unit 0          unit 1            NICs' capacity / oversubscription
//
// NVIDIA DGX SuperPOD H100 reference architecture: each 32-node group is rail-aligned; Wang et al.,
// "Rail-only: a low-cost high-performance network for training LLMs" (arXiv:2307.12169) section 2.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void rail_optimised(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const int per_leaf = cluster.fabric.nodes_per_leaf;
  const int rails = cluster.node.nics;
  const int units = (cluster.nodes - 1) / per_leaf + 1;
  const std::size_t first = parts.vertices.size();
  const auto leaf_of = [&](int unit, int rail) {
    return first + static_cast<std::size_t>(unit) * static_cast<std::size_t>(rails) +
           static_cast<std::size_t>(rail);
  };
  for (int leaf = 0; leaf < units * rails; ++leaf) add_switch(parts, VertexKind::leaf, leaf);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int rail = 0; rail < rails; ++rail) {
      join_leaf(cluster, parts, nic_vertex(layout, node, rail), leaf_of(node / per_leaf, rail));
    }
  }
  if (units * rails == 1) return;
  const std::size_t spine = add_switch(parts, VertexKind::spine, 0);
  for (int unit = 0; unit < units; ++unit) {
    for (int rail = 0; rail < rails; ++rail) {
      join_spine(cluster, parts, leaf_of(unit, rail), spine, per_leaf);
    }
  }
}

}  // namespace sim::topology
