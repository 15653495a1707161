// link_use.h — how busy each link of the cluster is over a training step, and with whose traffic.
//
// A link's use is the bytes that cross it in a step over what it carries in the time of a step. The
// bytes are those of every collective and message that the programs issue, over the routes that the
// network gives them (network.h); so the sum over links is conserved whatever shares them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/engine/replay.h"

namespace sim::study {

struct LinkUse {
  int link = 0;                            // of the routes among the job's nodes
  double busy = 0;                         // share of the step
  double bytes = 0;                        // of the step
  std::map<std::string, double> bytes_of;  // by communicator: "tp", "dp-cp"
};

// All links that the step uses, in order of their numbers. `step` is the step's time.
std::vector<LinkUse> link_use(const answer::CheckedPlan& plan, Duration step);

// The busiest link of each kind (NIC to leaf, leaf to spine ...), busiest kind first.
struct LinkKindUse {
  std::string kind;     // "NIC - leaf", both directions
  std::string busiest;  // "node 3 nic 1 -> leaf 0"
  double busy = 0, mean = 0;
  bool fabric = false;  // outside of the nodes
  int links = 0;
  std::string traffic;  // "dp-cp 81 %, pp 19 %" of the busiest
};
std::vector<LinkKindUse> by_kind(const std::vector<LinkUse>& uses, const topology::Routes& routes);

}  // namespace sim::study
