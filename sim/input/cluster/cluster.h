// cluster.h — loads a cluster description (topologies/*.textproto, schema cluster.proto).
//
// load_plan, load_grid and Sites (answer/site.h) call it. A Machine that is returned satisfies
// the rules of the schema and of cluster/topology. It contains no profile yet (profile/profile.h).
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/device/gpu.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

// A name of the cluster's GPU in tables of measurements.
struct GpuAlias {
  std::string name;
  double memory_gb = 0;
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: as in the table or the node
};

struct Machine {
  topology::Cluster cluster;
  device::Gpu gpu;
  std::vector<device::Gpu> others;  // GPUs of other kinds, kind 1 first
  double price_per_gpu_hour = 0;    // in the currency of the file; 0: unknown
  std::string communication;        // name of the profile with `communication`
  std::vector<GpuAlias> aliases;
  std::string site;                  // name of the site in tables of measurements
  std::vector<std::string> sources;  // sources: "node: ABCI system overview"
  std::vector<std::string> notes;    // what the settings make of the file's nodes
  std::string path;
  std::string text;  // canonical text of all fields; part of an answer's digest
};

// Loads a cluster file. `overrides` are "key=value" with a field of cluster.proto:
// "fabric.oversubscription=4", "node.nic_bandwidth=100Gb/s", "condition={node: 3 nic: 1 bandwidth:
// 0}". The last form adds an element to a list.
Result<Machine> load_cluster(const std::string& path,
                             const std::vector<std::string>& overrides = {});

// Parses a text; diagnostics show `path`.
Result<Machine> parse_cluster(const std::string& text, const std::string& path);

// Loads a cluster by name or path (text/locate.h).
Result<Machine> find_cluster(std::string_view name, const std::string& beside = "",
                             const std::vector<std::string>& overrides = {});

}  // namespace sim::input
