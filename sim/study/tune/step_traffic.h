// step_traffic.h — the collectives and messages of a training step: groups, bytes and count. Equal
// replicas are represented by the first one.
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
  network::Groups groups;  // groups that communicate at the same time
  Bytes bytes;             // of one
  std::int64_t times = 0;  // per step
};

std::vector<StepTraffic> step_traffic(const program::Job& job, const topology::Cluster& cluster);

}  // namespace sim::study
