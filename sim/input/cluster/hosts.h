// hosts.h — reads measured rates of host CPUs (calibration/hosts.csv): quantities by host.
//
// The cluster loader and the offload tables of calibrate call it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

// Stores the quantities of a host in the variables of `wanted`, by name. Error: a quantity that is
// missing, unknown or not above 0.
Diagnostics read_host(std::string_view host, const std::map<std::string, double*>& wanted);

// Default rates for a node without measured CPUs.
const Result<topology::HostLevels>& host_levels();  // read once per process

}  // namespace sim::input
