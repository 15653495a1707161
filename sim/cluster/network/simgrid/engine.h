// engine.h — one query solved by SimGrid, in a process that has not used SimGrid before.
//
// SimGrid allows one engine per process and a second one does not start at time 0, so the caller
// forks for every query. The model is pinned to plain equations: CM02, no TCP window, no
// cross-traffic, no latencies.
#pragma once

#include "sim/cluster/network/query.h"

namespace sim::network {

// REQUIRES: the query was accepted by parse_query; nothing in this process touched SimGrid.
Finish solve_with_simgrid(const Query& query);

}  // namespace sim::network
