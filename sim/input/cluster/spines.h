// spines.h — the number of spines of a fabric of leaves and spines whose file does not say it.
//
// The loader of clusters (hardware.cpp) calls it for each fabric.
#pragma once

#include "sim/cluster/topology/cluster.h"

namespace sim::input {

// A folded Clos network: a leaf has one cable to each spine, at the speed of a NIC. So there are
// nodes_per_leaf x nics / oversubscription spines, from 1 to 4096. 0 for other kinds of fabric.
// `nics`: of a node.
int spines_of(const topology::Fabric& fabric, int nics);

}  // namespace sim::input
