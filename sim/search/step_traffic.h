// step_traffic.h — the collectives and messages of a training step: who sends how much to whom, how
// often. Of replicas that do the same the first one speaks.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/collective.h"
#include "sim/network/network.h"
#include "sim/workload/program.h"

namespace sim::search {

struct StepTraffic {
  workload::Stream stream{};
  collective::Kind kind{};
  network::Groups groups;  // that do it at the same time
  Bytes bytes;             // of one
  std::int64_t times = 0;  // in a step
};

std::vector<StepTraffic> step_traffic(const workload::Job& job, const topology::Cluster& cluster);

}  // namespace sim::search
