// bisection.h — the bandwidth between two parts of a cluster.
#pragma once

#include "sim/cluster/topology/graph.h"

namespace sim::topology {

// Maximum bytes per second from the NICs of nodes before `split` to those of the others, by Boykov
// and Kolmogorov's maximum flow.
double bisection(const Graph& graph, int split);

}  // namespace sim::topology
