// packets.h — simulates one query of packets with ns-3 below SimGrid, in a process that has not
// used SimGrid before.
#pragma once

#include <variant>

#include "sim/cluster/network/packets.h"
#include "sim/cluster/network/query.h"

namespace sim::network {

// The end of each message, or an error: SimGrid was built without ns-3.
std::variant<Finish, std::string> simulate_packets(const PacketQuery& query);

}  // namespace sim::network
