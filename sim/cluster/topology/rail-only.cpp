// rail-only.cpp — one switch per rail and nothing between rails: NIC r of every node on leaf r.
//
//      leaf 0   leaf 1   leaf 2   leaf 3       diameter between NICs of a rail: 2; other rails are
//        │        │        │        │          not reached: a message changes rails over NVLink
//      nic 0    nic 1    nic 2    nic 3        bisection = half of the NICs' capacity
//
// Wang et al., "Rail-only: a low-cost high-performance network for training LLMs with trillion
// parameters", arXiv:2307.12169.
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void rail_only(const Cluster& cluster, GraphBuilder& parts) {
  const NodeLayout layout(cluster.node);
  const std::size_t first = parts.vertices.size();
  for (int rail = 0; rail < cluster.node.nics; ++rail) add_switch(parts, VertexKind::leaf, rail);
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int rail = 0; rail < cluster.node.nics; ++rail) {
      join_leaf(cluster, parts, nic_vertex(layout, node, rail),
                first + static_cast<std::size_t>(rail));
    }
  }
}

}  // namespace sim::topology
