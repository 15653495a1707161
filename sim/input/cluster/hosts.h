// hosts.h — what was measured of the CPUs of nodes (calibration/hosts.csv): quantities by host.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

// Reads the quantities of a host to where `wanted` has them, by name. One that is missing, unknown
// or not above zero is an error.
Diagnostics read_host(std::string_view host, const std::map<std::string, double*>& wanted);

// Of a node whose CPUs nobody measured.
const Result<topology::HostLevels>& host_levels();  // read once

}  // namespace sim::input
