// wiring.h — classifies a tree of switches and hosts as one of a cluster's kinds of `fabric`.
#pragma once

#include <string>

#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::topology {

// The kind of a wiring. Leaves are the switches with hosts. One leaf: single_switch. Unconnected
// leaves, several to a host: rail_only. Several to a host, under spines: rail_optimised. A level
// above the spines: three_level, whose pods are the leaves that the spines join. Otherwise:
// fat_tree. Over-subscription is that of the fullest leaf; 1 if the wiring has no rates.
struct WiringShape {
  Fabric fabric;
  int nodes = 0;
  std::string seen;  // "16 hosts on 2 leaves under 1 spine; ..."
};
WiringShape shape_of(const Wiring& wiring);

}  // namespace sim::topology
