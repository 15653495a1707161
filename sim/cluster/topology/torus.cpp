// torus.cpp — one router per node in a k-dimensional grid, joined to its two neighbours along each
// dimension. The rings are closed unless the fabric is `open` (a mesh).
//
//      r0 ── r1 ── r2 ┐      degree of a router: 2 per dimension longer than 2, 1 where it is 2
//      │     │     │  │      diameter in routers: sum of floor(d / 2); open: sum of (d - 1)
//      r3 ── r4 ── r5 ┤      bisection across the longest even dimension: 2 x cable x N / d for
//      └──────────────┘      d > 2 (1 x where it is open or d = 2)
//
// The place of node i is i written with the dimensions as digits, the first one fastest. Among
// shortest paths the route follows the first dimension first, and so on.
//
// Dally and Towles, Principles and Practices of Interconnection Networks (2004), chapter 5.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void torus(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const Fabric& fabric = cluster.fabric;
  int routers = 1;
  for (const int extent : fabric.dimensions) routers *= extent;
  const std::size_t first = parts.vertices.size();
  for (int r = 0; r < routers; ++r) add_switch(parts, VertexKind::leaf, r);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, parts, nic_vertex(layout, node, nic),
                first + static_cast<std::size_t>(node));
    }
  }
  const auto cable = static_cast<double>(fabric.cable.bytes_per_second);
  int stride = 1;
  for (const int extent : fabric.dimensions) {
    for (int r = 0; r < routers && extent > 1; ++r) {
      const int place = r / stride % extent;
      const bool last = place == extent - 1;
      // In a dimension of two, the routers are neighbours once, not on both sides.
      if (last && (fabric.open || extent == 2)) continue;
      const int next = last ? r - place * stride : r + stride;
      join(parts, first + static_cast<std::size_t>(r), first + static_cast<std::size_t>(next),
           cable, fabric.spine_hop, fabric.spine_hop);
    }
    stride *= extent;
  }
}

}  // namespace sim::topology
