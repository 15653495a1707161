// three-level.cpp — leaves in pods: a pod is a two-level fat tree, pods are joined by a core level.
//
//              core                    leaf trunk = nodes_per_leaf x NICs x NIC / oversubscription
//          ┌────┴────┐                 pod trunk  = leaves_per_pod x leaf trunk /
//        spine 0   spine 1                          pod_oversubscription
//        ┌──┴──┐   ┌──┴──┐             diameter between NICs: 2 on a leaf, 4 in a pod, 6 across
//      leaf0 leaf1 leaf2 leaf3         bisection between halves of the pods = half of the pods'
//                                      trunks
//
// Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network architecture", SIGCOMM
// 2008 (a k-ary tree has k pods of k/2 leaves of k/2 ports).
#include "sim/cluster/topology/fabric.h"

namespace sim::topology {

void three_level(const Cluster& cluster, GraphBuilder& parts) {
  const Fabric& fabric = cluster.fabric;
  const Leaves leaves = add_leaves(cluster, parts);
  const int pods = (leaves.count - 1) / fabric.leaves_per_pod + 1;
  if (leaves.count == 1) return;
  const std::size_t spine = parts.vertices.size();
  for (int pod = 0; pod < pods; ++pod) add_switch(parts, VertexKind::spine, pod);
  const int ports = fabric.nodes_per_leaf * cluster.node.nics;
  for (int leaf = 0; leaf < leaves.count; ++leaf) {
    join_spine(cluster, parts, leaves.vertex(leaf),
               spine + static_cast<std::size_t>(leaf / fabric.leaves_per_pod), ports);
  }
  if (pods == 1) return;
  const std::size_t core = add_switch(parts, VertexKind::core, 0);
  const double pod_trunk = static_cast<double>(cluster.node.nic.bytes_per_second) * ports *
                           fabric.leaves_per_pod / fabric.oversubscription /
                           fabric.pod_oversubscription;
  for (int pod = 0; pod < pods; ++pod) {
    join(parts, spine + static_cast<std::size_t>(pod), core, pod_trunk, fabric.core_hop);
  }
}

}  // namespace sim::topology
