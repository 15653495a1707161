// leaf-spine.cpp — every leaf has a cable to every spine, and the hash of a flow selects one spine.
// So two flows can collide on a cable while another cable is idle. This models Ethernet, and
// InfiniBand with static routes, where each uplink of a leaf counts as a spine.
//
//      spine 0   spine 1   spine 2         cable = nodes_per_leaf x NICs x NIC rate /
//         └────┬────┴────┬────┘                    oversubscription / spines
//            leaf 0    leaf 1              diameter between NICs: 2 on one leaf, 4 across
//                                          bisection = half of the NICs / oversubscription, where
//                                          no two flows collide
//
// Sources: RFC 2992 (equal-cost multi-path by hash). Collisions of few long flows: Al-Fares et al.,
// "Hedera", NSDI 2010. Collisions of static routes: Hoefler, Schneider, Lumsdaine, "Multistage
// switches are not crossbars", CLUSTER 2008.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void leaf_spine(const Cluster& cluster, GraphBuilder& parts) {
  const Fabric& fabric = cluster.fabric;
  const Leaves leaves = add_leaves(cluster, parts);
  if (leaves.count == 1) return;
  const std::size_t spine = parts.vertices.size();
  for (int s = 0; s < fabric.spines; ++s) add_switch(parts, VertexKind::spine, s);
  const double cable = static_cast<double>(cluster.node.nic.bytes_per_second) *
                       fabric.nodes_per_leaf * cluster.node.nics / fabric.oversubscription /
                       fabric.spines;
  for (int leaf = 0; leaf < leaves.count; ++leaf) {
    for (int s = 0; s < fabric.spines; ++s) {
      join(parts, leaves.vertex(leaf), spine + static_cast<std::size_t>(s), cable,
           fabric.spine_hop);
    }
  }
}

}  // namespace sim::topology
