// plausible.h — compares a cluster with those of topologies/: numbers of its GPU that are off by a
// factor (sparse peaks, bits for bytes, a misplaced point), a switch that is too large.
//
// `rehearse topo check` calls it. Its sentences are warnings: simulations use the numbers as given.
#pragma once

#include <string>
#include <vector>

#include "sim/input/cluster/cluster.h"

namespace sim::input {

// One sentence for each number, with the value that it is compared with; empty: no doubt.
std::vector<std::string> doubtful_numbers(const Machine& machine);

}  // namespace sim::input
