// link_use.h — how busy each link of the cluster is over a training step, and with which traffic.
//
// The use of a link is the bytes that cross it in a step over its capacity times the step time.
// Bytes come from every collective and message of the programs, on the routes of the network model
// (network.h). Transfers that share a link change its times, not these bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/engine/replay.h"

namespace sim::study {

struct LinkUse {
  int link = 0;                            // index in the routes among the job's nodes
  double busy = 0;                         // share of the step
  double bytes = 0;                        // per step
  std::map<std::string, double> bytes_of;  // by communicator: "tp", "dp-cp"
};

// All links that the step uses, in order of their numbers. `step` is the step time.
std::vector<LinkUse> link_use(const answer::CheckedPlan& plan, Duration step);

// The busiest link of each kind (NIC to leaf, leaf to spine ...), busiest kind first.
struct LinkKindUse {
  std::string kind;     // "NIC - leaf", for both directions
  std::string busiest;  // "node 3 nic 1 -> leaf 0"
  double busy = 0, mean = 0;
  bool fabric = false;  // outside of the nodes
  int links = 0;
  std::string traffic;  // of the busiest link: "dp-cp 81 %, pp 19 %"
};
std::vector<LinkKindUse> by_kind(const std::vector<LinkUse>& uses, const topology::Routes& routes);

}  // namespace sim::study
