// inspect.h — checks a cluster as an engineer would: uneven rails, NICs on the far socket, too
// little bandwidth between halves, unreachable hosts.
//
// It reads two descriptions. One is our own (cluster.h). The other is a tree of switches and hosts
// as listed by Slurm or the subnet manager (Wiring), which our kinds of fabric need not cover.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// Hosts and switches by name; cables by vertex number: switches first, then hosts.
struct Wiring {
  std::vector<std::string> switches, hosts;
  struct Cable {
    int a = 0, b = 0;             // switch i is i, host j is switches.size() + j
    double bytes_per_second = 0;  // 0: unknown
  };
  std::vector<Cable> cables;
};

struct Finding {
  bool problem = false;  // else a noteworthy fact
  std::string text;
};

// `least_bisection`: the claimed share of full bisection; 0: no claim.
std::vector<Finding> inspect(const Node& node);
std::vector<Finding> inspect(const Cluster& cluster, double least_bisection = 0);
std::vector<Finding> inspect(const Wiring& wiring, double least_bisection = 0);

// Whether a NIC is faster than the PCIe slot that it sits on.
bool nics_exceed_slots(const Node& node);

// Maximum bytes per second from the first half of the nodes to the second half, by maximum flow.
// The result is a share of the first half's NIC bandwidth. REQUIRES: at least two nodes.
double bisection_share(const Cluster& cluster);

}  // namespace sim::topology
