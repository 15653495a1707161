// layout.h — the placement of the groups of one kind on the cluster: the ranks on each node and the
// NICs that they own.
//
// Groups of one kind have equal sizes but may lie differently (one inside a node, another across
// two). NCCL decides for each group separately. Groups with the same layout have one GroupShape.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/cluster/network/network.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::network {

// The ranks of a group on one node, in rank order, and the NICs that their GPUs own, ascending.
struct Locals {
  int node = 0;
  std::vector<int> gpus;  // numbers in the cluster
  std::vector<int> nics;  // numbers in the node
  int nvlink_rings = 0;   // if GPUs are joined directly: NVLink rings through these GPUs
};

// A group's nodes, in the order in which its ranks reach them.
using GroupNodes = std::vector<Locals>;

struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  int locals = 1;  // maximum ranks of the group on one node
  int nics = 0;    // minimum NICs that the group owns on a node: its ring channels between nodes
  int nvlink_rings = 0;  // within one node of directly joined GPUs; 0: its rings use PCIe
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

// Rings through all of these GPUs of a node (numbers in the node) over its direct NVLinks. Each
// ring takes one link in one direction between neighbours. Rings are found one after the other
// until no more fit; none for one GPU, or if no ring joins the GPUs.
std::vector<std::vector<int>> nvlink_rings(const topology::Node& node,
                                           const std::vector<int>& gpus);

// A hash of groups, including how they are divided.
using GroupsHash = std::pair<std::uint64_t, std::uint64_t>;
GroupsHash hash_of(const std::vector<std::vector<int>>& groups);

GroupNodes spread(const std::vector<int>& ranks, const topology::Cluster& cluster);
GroupShape shape_of(const GroupNodes& spread);

}  // namespace sim::network
