// inspect.h — what a cluster engineer would find in a cluster: uneven rails, NICs on the far
// socket, less bandwidth between halves than there should be, hosts that nothing reaches.
//
// Works on two descriptions: our own (cluster.h), and a tree of switches and hosts as Slurm or the
// subnet manager lists it (Wiring), which our kinds of fabric need not be able to express.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// Hosts and switches by name; cables by number: switches first, then hosts.
struct Wiring {
  std::vector<std::string> switches, hosts;
  struct Cable {
    int a = 0, b = 0;             // switch i is i, host j is switches.size() + j
    double bytes_per_second = 0;  // 0: not said
  };
  std::vector<Cable> cables;
};

struct Finding {
  bool problem = false;  // else a fact worth knowing
  std::string text;
};

// `least_bisection`: what is claimed, as a share of full bisection; 0: nothing is claimed.
std::vector<Finding> inspect(const Node& node);
std::vector<Finding> inspect(const Cluster& cluster, double least_bisection = 0);
std::vector<Finding> inspect(const Wiring& wiring, double least_bisection = 0);

// Most bytes per second that the first half of the nodes can send to the others, as a share of what
// their NICs send; by maximum flow. REQUIRES: at least two nodes.
double bisection_share(const Cluster& cluster);

}  // namespace sim::topology
