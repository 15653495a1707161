// channels.h — the rings that NCCL's graph search finds for a group, and the number of channels
// that it launches.
//
// One node: the largest (channels x speed) that the NVLinks of a GPU carry. The search tries a list
// of speeds downwards while the next speed is above 0.49 of the best. Several nodes: one channel
// per owned NIC, at the largest listed speed that NIC and PCIe reach, if NVLink carries them all.
// Fast channels are then split in two at half the speed. The launch doubles the number (one thread
// block, hence one SM, each).
// NVIDIA/nccl v2.27: src/graph/search.cc (ncclTopoCompute, ncclTopoDupChannels), connect.cc
// (ncclTopoPostset), topo.h. These are NCCL's assumptions; it knows nothing of fabrics beyond the
// NIC.
#pragma once

#include "sim/cluster/network/layout.h"
#include "sim/cluster/network/profile.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::network {

// In bytes per second.
constexpr double rate(Bandwidth b) {
  return static_cast<double>(b.bytes_per_second);
}

struct SearchGraph {
  int channels = 1;  // after the split, before the doubling
  double speed = 0;  // of one channel, bytes per second
  // Speed of a channel inside the nodes, for trees over at most two nodes. NCCL's second pass
  // raises it to at most twice the speed between nodes, if NVLink carries it; NCCL then prefers the
  // tree.
  double tree_speed = 0;
  int launched = 1;  // channels = SMs of a kernel
  // A tree between nodes is balanced if two GPUs of a node share the way to a NIC: one receives
  // from the child nodes, the other one sends to the parent. Else it is plain: one GPU does both.
  bool plain_tree = false;
};

SearchGraph search_graph(const NcclModel& model, const topology::Node& node,
                         const GroupShape& shape);

}  // namespace sim::network
