// single-switch.cpp — every NIC on one switch that never blocks.
//
//     nic  nic  nic  nic        diameter 2 between NICs; bisection = half of the NICs' capacity
//      └────┴─┬──┴────┘
//           leaf 0
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void single_switch(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const std::size_t leaf = add_switch(parts, VertexKind::leaf, 0);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int nic = 0; nic < cluster.node.nics; ++nic) {
      join_leaf(cluster, parts, nic_vertex(layout, node, nic), leaf);
    }
  }
}

}  // namespace sim::topology
