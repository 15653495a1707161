// dragonfly.cpp — groups of routers. Inside a group every router has a cable to every other. Each
// router also has `global_links` cables to other groups, distributed evenly over the groups.
//
//      group 0           group 1           a routers per group, h global links each, g groups:
//      r0 ── r1          r2 ── r3          copies = floor(a h / (g - 1)) cables between two groups
//        └─────────────────┘               degree of a router: nodes + (a - 1) + h at most
//                                          diameter between NICs: 2 on a router, 3 in a group, 5
//                                          bisection of the groups = (g/2)^2 x copies x cable
//
// Routes are minimal: at most one cable between groups. Group i's port c (g-1) + d leads to group i
// + d + 1. It ends there on port c (g-1) + (g-2-d), so a cable has one end at each.
//
// With adaptive routes (Valiant's detours around busy cables), a flow between two routers may use
// any two consecutive cables of its group. A flow between groups may likewise use the cables of all
// groups. A router can then send half of its cables into its group, (a - 1) / 2. A group can send
// half of its own to the others, a h / 2, for any traffic. So a group is modelled as a spine, and
// the links between groups as a core:
//
//      core ──(a h / 2 cables)── group ──((a - 1) / 2 cables)── router
//
// Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {
namespace {

void add_detours(const Fabric& fabric, std::size_t first, GraphBuilder& parts) {
  const int a = fabric.routers_per_group, g = fabric.groups;
  if (a * g == 1) return;
  const double half = 0.5 * static_cast<double>(fabric.cable.bytes_per_second);
  const std::size_t spine = parts.vertices.size();
  for (int group = 0; group < g; ++group) add_switch(parts, VertexKind::spine, group);
  // A group with a single router sends all its traffic to other groups.
  const double own = a > 1 ? half * (a - 1) : half * fabric.global_links;
  for (int r = 0; r < a * g; ++r)
    join(parts, first + static_cast<std::size_t>(r), spine + static_cast<std::size_t>(r / a), own,
         fabric.spine_hop);
  if (g == 1) return;
  const std::size_t core = add_switch(parts, VertexKind::core, 0);
  for (int group = 0; group < g; ++group)
    join(parts, spine + static_cast<std::size_t>(group), core, half * a * fabric.global_links,
         fabric.core_hop);
}

}  // namespace

void dragonfly(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const Fabric& fabric = cluster.fabric;
  const int a = fabric.routers_per_group, g = fabric.groups;
  const std::size_t first = parts.vertices.size();
  const auto router = [&](int group, int index) {
    return first + static_cast<std::size_t>(group) * static_cast<std::size_t>(a) +
           static_cast<std::size_t>(index);
  };
  for (int r = 0; r < a * g; ++r) add_switch(parts, VertexKind::leaf, r);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, parts, nic_vertex(layout, node, nic),
                first + static_cast<std::size_t>(node / fabric.nodes_per_leaf));
    }
  }
  if (fabric.adaptive) return add_detours(fabric, first, parts);
  const auto cable = static_cast<double>(fabric.cable.bytes_per_second);
  for (int group = 0; group < g; ++group) {
    for (int i = 0; i < a; ++i) {
      for (int j = i + 1; j < a; ++j) {
        join(parts, router(group, i), router(group, j), cable, fabric.spine_hop, fabric.spine_hop);
      }
    }
  }
  if (g == 1) return;
  const int h = fabric.global_links;
  const int copies = a * h / (g - 1);
  for (int group = 0; group < g; ++group) {
    for (int copy = 0; copy < copies; ++copy) {
      for (int d = 0; d < g - 1; ++d) {
        const int other = (group + d + 1) % g;
        if (other < group) continue;  // the other end adds it
        const int here = copy * (g - 1) + d, there = copy * (g - 1) + (g - 2 - d);
        join(parts, router(group, here / h), router(other, there / h), cable, fabric.core_hop,
             fabric.core_hop);
      }
    }
  }
}

}  // namespace sim::topology
