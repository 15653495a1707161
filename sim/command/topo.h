// topo.h — the parts of `rehearse topo` that have a file of their own.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/command/common/command.h"

namespace sim::command {

// Searches an order of nodes for a plan's ranks (study/tune/place.h), and replays both.
int topo_place(const Options& options, Globals globals);

// What `topo time` is asked.
struct CollectiveAsked {
  std::string name;  // of nccl-tests
  collective::Kind kind{};
  std::vector<std::vector<int>> groups;  // at the same time
  std::int64_t least = 0, most = 0;      // bytes
};

// The same collective by max-min sharing and packet by packet.
int topo_packets(const topology::Cluster& cluster, const CollectiveAsked& asked, Globals globals);

}  // namespace sim::command
