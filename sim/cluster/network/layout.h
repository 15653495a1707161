// layout.h — how the groups of one kind lie on the cluster: who shares a node, which NICs they own.
//
// Groups of one kind have equal sizes but may lie differently (one inside a node, another across
// two); NCCL decides for each by itself. Groups that lie alike have one Shape.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/cluster/network/network.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::network {

// Ranks of a group on one node, in rank order, and the NICs that their GPUs own, ascending.
struct Locals {
  int node = 0;
  std::vector<int> gpus;  // of the cluster
  std::vector<int> nics;  // of the node
  int nvlink_rings = 0;   // of nodes whose GPUs are joined directly: rings of these GPUs
};

// A group's nodes in the order in which its ranks reach them.
using Spread = std::vector<Locals>;

struct Shape {
  int ranks = 1;
  int nodes = 1;
  int locals = 1;  // most ranks of the group on one node
  int nics = 0;    // fewest NICs that the group owns on a node: its ring channels between nodes
  int nvlink_rings = 0;  // within one node of directly joined GPUs; 0: its rings take PCIe
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Rings through all of these GPUs of a node (numbers in the node) over its direct NVLinks, each
// taking one link in one direction between neighbours, found one after the other until no more fit.
// One GPU, or GPUs that no such ring joins: none.
std::vector<std::vector<int>> nvlink_rings(const topology::Node& node,
                                           const std::vector<int>& gpus);

// Of groups and how they are cut.
using GroupsHash = std::pair<std::uint64_t, std::uint64_t>;
GroupsHash hash_of(const std::vector<std::vector<int>>& groups);

Spread spread(const std::vector<int>& ranks, const topology::Cluster& cluster);
Shape shape_of(const Spread& spread);

}  // namespace sim::network
