// fat-tree.cpp — two levels: all NICs of `nodes_per_leaf` nodes on one leaf, and leaves joined by a
// spine level.
//
//            spine               leaf trunk = nodes_per_leaf x NICs x NIC rate / oversubscription
//          ┌───┴───┐             diameter between NICs: 2 on one leaf, 4 across
//        leaf 0  leaf 1          bisection between halves of the leaves = half of the leaves'
//        n0 n1   n2 n3           trunks = half of the NICs' capacity / oversubscription
//
// Leiserson, "Fat-trees", IEEE Trans. Comput. C-34 (1985); Clos (1953) if all trunks are full.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void fat_tree(const Cluster& cluster, GraphBuilder& parts) {
  const Leaves leaves = add_leaves(cluster, parts);
  if (leaves.count == 1) return;
  const std::size_t spine = add_switch(parts, VertexKind::spine, 0);
  for (int leaf = 0; leaf < leaves.count; ++leaf) {
    join_spine(cluster, parts, leaves.vertex(leaf), spine,
               cluster.fabric.nodes_per_leaf * cluster.node.nics);
  }
}

}  // namespace sim::topology
