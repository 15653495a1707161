// coupling.h — every transfer and message of a job as a load on links (`--network coupled`).
//
// The room `answer` makes a Coupling when all traffic of a step shares one network. The reference
// engine then simulates the shared links (cluster/network/shared_links.h).
#pragma once

#include "sim/cluster/network/shared_links.h"
#include "sim/engine/replay.h"

namespace sim::engine {

// The kinds of link load of a job, and the kind of each collective and message, as indices.
struct Coupling {
  std::vector<network::SharedKind> kinds;
  std::vector<std::vector<std::size_t>> transfer;              // by class, by transfer
  std::vector<std::vector<std::vector<std::size_t>>> message;  // by class, exchange, message
};

// The coupling of a job. Equal loads (operation, groups, bytes) share one kind.
Coupling couple(const program::Job& job, network::Network& network);

}  // namespace sim::engine
