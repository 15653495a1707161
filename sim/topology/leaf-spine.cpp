// leaf-spine.cpp — Ethernet: every leaf has a cable to every spine, and a flow takes the one spine
// that its hash names, so two flows can meet on a cable while another is idle.
//
//      spine 0   spine 1   spine 2         cable = nodes_per_leaf x NICs x NIC rate /
//         └────┬────┴────┬────┘                    oversubscription / spines
//            leaf 0    leaf 1              diameter between NICs: 2 on one leaf, 4 across
//                                          bisection = half of the NICs / oversubscription, where
//                                          no two flows collide
//
// RFC 2992 (equal-cost multi-path by hash); collisions of few long flows: Al-Fares et al.,
// "Hedera", NSDI 2010.
#include "sim/topology/fabric.h"

namespace sim::topology {

void leaf_spine(const Cluster& cluster, Graph& graph) {
  const NodeLayout layout(cluster.node);
  const Fabric& fabric = cluster.fabric;
  const int leaves = (cluster.nodes - 1) / fabric.nodes_per_leaf + 1;
  const std::size_t first = boost::num_vertices(graph);
  for (int leaf = 0; leaf < leaves; ++leaf) add_switch(graph, VertexKind::leaf, leaf);
  for (int node = 0; node < cluster.nodes; ++node) {
    const std::size_t leaf = first + static_cast<std::size_t>(node / fabric.nodes_per_leaf);
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, graph, nic_vertex(layout, node, nic), leaf);
    }
  }
  if (leaves == 1) return;
  const std::size_t spine = boost::num_vertices(graph);
  for (int s = 0; s < fabric.spines; ++s) add_switch(graph, VertexKind::spine, s);
  const double cable = static_cast<double>(cluster.node.nic.bytes_per_second) *
                       fabric.nodes_per_leaf * cluster.node.nics / fabric.oversubscription /
                       fabric.spines;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int s = 0; s < fabric.spines; ++s) {
      join(graph, first + static_cast<std::size_t>(leaf), spine + static_cast<std::size_t>(s),
           cable, fabric.spine_hop);
    }
  }
}

}  // namespace sim::topology
