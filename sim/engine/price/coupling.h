// coupling.h — every transfer and message of a job as a user of links, for replays in which all
// traffic of the step shares one network (`--network coupled`).
#pragma once

#include "sim/cluster/network/shared_links.h"
#include "sim/engine/replay.h"

namespace sim::engine {

// What the links of the cluster have to do with a job: a kind of transfer for each collective and
// each message of each class.
struct Coupling {
  std::vector<network::SharedKind> kinds;
  std::vector<std::vector<std::size_t>> transfer;              // by class, by transfer
  std::vector<std::vector<std::vector<std::size_t>>> message;  // by class, exchange, message
};

Coupling couple(const program::Job& job, network::Network& network);

}  // namespace sim::engine
