// wiring.h — what a tree of switches and hosts amounts to in the words of a cluster's `fabric`.
#pragma once

#include <string>

#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::topology {

// Leaves are the switches with hosts. One leaf: single_switch; leaves that nothing joins, several
// to a host: rail_only; several to a host under spines: rail_optimised; a level above the spines:
// three_level, whose pods are the leaves that the spines join; else fat_tree. Over-subscription is
// that of the fullest leaf, 1 where the wiring names no rates.
struct WiringShape {
  Fabric fabric;
  int nodes = 0;
  std::string seen;  // "16 hosts on 2 leaves under 1 spine; ..."
};
WiringShape shape_of(const Wiring& wiring);

}  // namespace sim::topology
