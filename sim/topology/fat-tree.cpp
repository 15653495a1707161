// fat-tree.cpp — two levels: all NICs of `nodes_per_leaf` nodes on one leaf, leaves joined by a
// spine level.
//
//            spine               leaf trunk = nodes_per_leaf x NICs x NIC rate / oversubscription
//          ┌───┴───┐             diameter between NICs: 2 on one leaf, 4 across
//        leaf 0  leaf 1          bisection between halves of the leaves = half of the leaves'
//        n0 n1   n2 n3           trunks = half of the NICs' capacity / oversubscription
//
// Leiserson, "Fat-trees", IEEE Trans. Comput. C-34 (1985); Clos (1953) where all trunks are full.
#include "sim/topology/fabric.h"

namespace sim::topology {

void fat_tree(const Cluster& cluster, Graph& graph) {
  const NodeLayout layout(cluster.node);
  const int per_leaf = cluster.fabric.nodes_per_leaf;
  const int leaves = (cluster.nodes - 1) / per_leaf + 1;
  const std::size_t first = boost::num_vertices(graph);
  for (int leaf = 0; leaf < leaves; ++leaf) add_switch(graph, VertexKind::leaf, leaf);
  for (int node = 0; node < cluster.nodes; ++node) {
    const std::size_t leaf = first + static_cast<std::size_t>(node / per_leaf);
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, graph, nic_vertex(layout, node, nic), leaf);
    }
  }
  if (leaves == 1) return;
  const std::size_t spine = add_switch(graph, VertexKind::spine, 0);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    join_spine(cluster, graph, first + static_cast<std::size_t>(leaf), spine,
               per_leaf * cluster.node.nics);
  }
}

}  // namespace sim::topology
