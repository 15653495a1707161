// step_traffic.h — the collectives and messages of a training step: who sends how much to whom, how
// often. Of replicas that do the same the first one speaks.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/network/network.h"
#include "sim/program/ir/program.h"

namespace sim::study {

struct StepTraffic {
  program::Stream stream{};
  collective::Kind kind{};
  network::Groups groups;  // that do it at the same time
  Bytes bytes;             // of one
  std::int64_t times = 0;  // in a step
};

std::vector<StepTraffic> step_traffic(const program::Job& job, const topology::Cluster& cluster);

}  // namespace sim::study
