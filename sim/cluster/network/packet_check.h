// packet_check.h — simulates one collective or ring of sends of a group twice, by max-min sharing
// and packet by packet, and splits the difference into parts.
//
// Both use the rounds of the catalog's algorithm (collective.h) over the same routes, at raw rates:
// no profile, one NIC per message. A round starts when the previous round has arrived everywhere.
#pragma once

#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/collective/collective.h"
#include "sim/cluster/network/packets.h"
#include "sim/cluster/network/solver.h"
#include "sim/cluster/topology/routes.h"

namespace sim::network {

// Seconds of all rounds together; a round lasts until its last message ends.
struct PacketCheck {
  int rounds = 0;
  double max_min = 0;
  double packets = 0;
  // Parts of the difference that TCP on idle cables explains (packets.h).
  double headers = 0, start = 0, slow_start = 0;
  double left() const { return packets - max_min - headers - start - slow_start; }
};

// The maximum of segments times cables in one check; this takes some seconds.
constexpr double most_packet_hops = 200'000;

// The query for ns-3. An error if ns-3 cannot represent the network: too much work, or a route that
// is not the only one with the fewest cables. REQUIRES: ranks are two GPUs or more that the routes
// cover; the kind is not all-to-all.
Result<PacketQuery> packet_query(const topology::Routes& routes, collective::Kind kind,
                                 const std::vector<int>& gpus, double bytes);
Result<PacketCheck> packet_check(const topology::Routes& routes, Solver& solver,
                                 collective::Kind kind, const std::vector<int>& gpus, double bytes);

}  // namespace sim::network
