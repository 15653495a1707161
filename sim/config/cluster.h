// cluster.h — loads a cluster description (topologies/*.textproto, schema cluster.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/core/result.h"
#include "sim/device/gpu.h"
#include "sim/topology/cluster.h"

namespace sim::config {

struct Machine {
  topology::Cluster cluster;
  device::Gpu gpu;
  std::string communication;         // profile whose `communication` section holds
  std::vector<std::string> sources;  // of the numbers: "node: ABCI system overview"
  std::string path;
  std::string text;  // every field in a fixed order, without comments: what an answer depends on
};

Result<Machine> load_cluster(const std::string& path);

// By name or path, as locate.h finds it.
Result<Machine> find_cluster(std::string_view name, const std::string& beside = "");

}  // namespace sim::config
