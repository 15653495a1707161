// engine.h — solves one query with SimGrid, in a process that has not used SimGrid before.
//
// SimGrid allows one engine per process, and a second one does not start at time 0. So the caller
// forks for every query. The model is fixed to plain equations: CM02, no TCP window, no
// cross-traffic, no latencies.
#pragma once

#include "sim/cluster/network/query.h"

namespace sim::network {

// REQUIRES: the query was accepted by parse_query; this process has not used SimGrid.
Finish solve_with_simgrid(const Query& query);

}  // namespace sim::network
