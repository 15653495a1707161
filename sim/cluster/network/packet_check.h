// packet_check.h — simulates one collective, all-to-all or ring of sends of some groups twice, by
// max-min sharing and packet by packet, and splits the difference into parts.
//
// Both use the rounds of the catalog's algorithm (collective.h) over the same routes, at raw rates:
// no profile, one NIC per message. A round starts when the previous round has arrived everywhere,
// in all groups. An all-to-all sends to up to eight peers in a round, as NCCL does.
#pragma once

#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/collective/collective.h"
#include "sim/cluster/network/network.h"
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
// is not the only one with the fewest cables. REQUIRES: each group is two GPUs or more that the
// routes cover.
Result<PacketQuery> packet_query(const topology::Routes& routes, collective::Kind kind,
                                 const Groups& groups, double bytes);
Result<PacketCheck> packet_check(const topology::Routes& routes, Solver& solver,
                                 collective::Kind kind, const Groups& groups, double bytes);

}  // namespace sim::network
