// packets.h — one query of packets, simulated by ns-3 below SimGrid, in a process that has not used
// SimGrid before.
#pragma once

#include <variant>

#include "sim/cluster/network/packets.h"
#include "sim/cluster/network/query.h"

namespace sim::network {

// When each message has ended, or why it cannot be said: a SimGrid that was built without ns-3.
std::variant<Finish, std::string> simulate_packets(const PacketQuery& query);

}  // namespace sim::network
