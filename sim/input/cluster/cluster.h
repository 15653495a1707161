// cluster.h — loads a cluster description (topologies/*.textproto, schema cluster.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/device/gpu.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

// How tables of measurements call a cluster's GPU.
struct GpuAlias {
  std::string name;
  double memory_gb = 0;
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: as the table or the node says
};

struct Machine {
  topology::Cluster cluster;
  device::Gpu gpu;
  std::vector<device::Gpu> others;  // of nodes with another GPU: kinds 1 ... of the cluster
  double price_per_gpu_hour = 0;    // 0: not said
  std::string communication;        // profile whose `communication` section holds
  std::vector<GpuAlias> aliases;
  std::string site;                  // its name in tables of measurements
  std::vector<std::string> sources;  // of the numbers: "node: ABCI system overview"
  std::string path;
  std::string text;  // every field in a fixed order, without comments: what an answer depends on
};

// `overrides` are "key=value" with a field of cluster.proto: "fabric.oversubscription=4",
// "node.nic_bandwidth=100Gb/s", "condition={node: 3 nic: 1 bandwidth: 0}" (adds to a list that is
// not there, replaces one that is).
Result<Machine> load_cluster(const std::string& path,
                             const std::vector<std::string>& overrides = {});

// From a text, as if `path` held it.
Result<Machine> parse_cluster(const std::string& text, const std::string& path);

// By name or path, as locate.h finds it.
Result<Machine> find_cluster(std::string_view name, const std::string& beside = "",
                             const std::vector<std::string>& overrides = {});

}  // namespace sim::input
