// topo.h — parts of `rehearse topo` with files of their own.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/command/common/command.h"
#include "sim/input/cluster/cluster.h"

namespace sim::command {

// Searches an order of nodes for a plan's ranks (study/tune/place.h) and replays the plan with the
// old and the new order.
int topo_place(const Options& options, Globals globals);

// The collective that `topo time` measures.
struct CollectiveAsked {
  std::string name;  // name in nccl-tests
  collective::Kind kind{};
  std::vector<std::vector<int>> groups;  // groups that run at the same time
  std::int64_t least = 0, most = 0;      // bytes
};

// Compares a collective by max-min sharing with a packet-level simulation.
int topo_packets(const topology::Cluster& cluster, const CollectiveAsked& asked, Globals globals);

// Compares measured collectives, the files of --compare, with their predictions on a machine.
int topo_compare(const input::Machine& machine, const Options& options, Globals globals);

}  // namespace sim::command
