// layout.h — how the groups of one kind lie on the cluster: who shares a node, which NICs they own.
//
// Groups of one kind have equal sizes but may lie differently (one inside a node, another across
// two); NCCL decides for each by itself. Groups that lie alike have one Shape.
#pragma once

#include <compare>
#include <vector>

#include "sim/network/network.h"
#include "sim/topology/cluster.h"

namespace sim::network {

// Ranks of a group on one node, in rank order, and the NICs that their GPUs own, ascending.
struct Locals {
  int node = 0;
  std::vector<int> gpus;  // of the cluster
  std::vector<int> nics;  // of the node
};

// A group's nodes in the order in which its ranks reach them.
using Spread = std::vector<Locals>;

struct Shape {
  int ranks = 1;
  int nodes = 1;
  int locals = 1;  // most ranks of the group on one node
  int nics = 0;    // fewest NICs that the group owns on a node: its ring channels between nodes
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

Spread spread(const std::vector<int>& ranks, const topology::Cluster& cluster);
Shape shape_of(const Spread& spread);

}  // namespace sim::network
