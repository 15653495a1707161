// bisection.h — what two parts of a cluster can send each other.
#pragma once

#include "sim/cluster/topology/graph.h"

namespace sim::topology {

// Most bytes per second from the NICs of nodes before `split` to those of the others, by Boykov and
// Kolmogorov's maximum flow.
double bisection(const Graph& graph, int split);

}  // namespace sim::topology
