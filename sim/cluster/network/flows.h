// flows.h — the traffic of a collective as flows over links: the input of the solver.
//
// A ring of n ranks is n transfers that advance together, so it is one flow over the links of all
// its edges. Patterns, each for one byte:
//
//     ring        one byte over every edge of the ring; channels share it equally
//                   one node: NVLink ring. In a mesh NCCL's rings use all pairs; all (k-1)! cyclic
//                   orders together put 1/(k-1) of the byte on each ordered pair
//                   several nodes: a channel per NIC that the group owns; it enters each node by
//                   that NIC, passes the group's GPUs of the node by NVLink and leaves by the NIC
//     tree        an all-reduce of one byte by the double binary tree over nodes (half on each
//                   tree, up and down), a chain of GPUs inside each node; a channel per NIC
//     nvls_tree   the same between nodes; inside a node the switch adds (not on links)
//     sends       one byte from every rank to the next, each an independent flow
//     exchange    the same, and from the last to the first
//     all_to_all  1/n byte from every rank to every other, all pairs together
//     pairs       one byte from every rank to every other, a flow for each, in order of ranks
//
// Messages between nodes leave by the NIC of the destination's rail if NVLink leads to it (PXN).
//
// NVIDIA/nccl v2.27: src/graph/connect.cc (rings, trees), paths.cc (PXN), trees.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/network/layout.h"
#include "sim/cluster/network/profile.h"
#include "sim/cluster/network/query.h"
#include "sim/cluster/topology/routes.h"

namespace sim::network {

enum class Pattern : std::uint8_t { ring, tree, nvls_tree, sends, exchange, all_to_all, pairs };

struct Traffic {
  Query query;               // bytes scaled: 1e9 for each byte of the pattern
  std::vector<int> group;    // by flow
  std::vector<bool> inside;  // by flow: it stays in one node
  // By group: the latency of its longest step between nodes, beyond NCCL's own.
  std::vector<Duration> extra;
  std::vector<int> links;  // the cluster's link for each link of the query
};
constexpr double traffic_scale = 1e9;

// By link of the cluster: its place in the current query, the last flow that crossed it, and its
// place in that flow. The table is reused from query to query, because a cluster has many links and
// a query few.
struct LinkPlaces {
  struct Seen {
    int query = 0, place = -1, flow = -1, use = 0;
  };
  std::vector<Seen> seen;
  int query = 0;
};

// The nodes whose own links a query contains, for rings and trees. Nodes are alike if they hold the
// same GPUs and NICs of the same groups, with equal numbers of tree neighbours. Alike nodes have
// equal flows on their own links (NVLink, PCIe, to the leaves), so one of them determines the
// rates. This holds if no part is degraded (Cluster::conditions), no rate of a node is measured,
// and the fabric joins its rails. Otherwise, and for other patterns, all nodes' links are included.
enum class Of : std::uint8_t { all_nodes, one_of_alike };

// REQUIRES: at least two ranks in each group.
Traffic traffic(Pattern pattern, const std::vector<GroupNodes>& groups,
                const std::vector<std::vector<int>>& ranks, const topology::Routes& routes,
                const Achieved& achieved, int send_channels, LinkPlaces& places, Of of);

}  // namespace sim::network
