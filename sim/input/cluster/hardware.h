// hardware.h — GPUs, nodes and the fabric of a cluster file as structs of `cluster`.
//
// load_cluster (cluster.h) calls it for each file. Problems name the field and what to write.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "sim/cluster/device/gpu.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// The problems of one cluster file, and the places of its fields.
struct HardwareLoad {
  const Source& source;
  Diagnostics problems;

  void add(const google::protobuf::Message& message, std::string_view field, std::string text,
           int index = 0) {
    problems.push_back({source.where(message, field, index), std::move(text)});
  }
};

topology::Node read_node(const rehearse::v1::Node& from, HardwareLoad& load);
topology::Fabric read_fabric(const rehearse::v1::Cluster& cluster, HardwareLoad& load);
device::Gpu read_gpu(const rehearse::v1::Gpu& from, HardwareLoad& load);

}  // namespace sim::input
