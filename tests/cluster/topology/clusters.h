// clusters.h — small clusters for tests; their rates are round numbers of no real machine.
#pragma once

#include <numeric>

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

inline Cluster test_cluster(int nodes, int gpus, int nics, FabricKind kind, int nodes_per_leaf = 2,
                            double oversubscription = 1.0,
                            GpuInterconnect interconnect = GpuInterconnect::nvswitch) {
  using namespace literals;
  Cluster cluster;
  cluster.name = "test";
  cluster.nodes = nodes;
  cluster.node.gpus = gpus;
  cluster.node.interconnect = interconnect;
  cluster.node.nvlinks_per_gpu = 12;
  cluster.node.nvlinks_per_pair = 4;
  cluster.node.nvlink = 20_GBps;
  cluster.node.pcie = 25_GBps;
  cluster.node.nics = nics;
  cluster.node.nic = 20_GBps;
  for (int gpu = 0; gpu < gpus && nics > 0; ++gpu) {
    cluster.node.nic_of_gpu.push_back(gpu * nics / gpus);
  }
  cluster.fabric = {kind, nodes_per_leaf, oversubscription, 1_us, 3_us};
  Fabric& fabric = cluster.fabric;
  fabric.leaves_per_pod = 2;
  fabric.core_hop = 5_us;
  fabric.spines = 3;
  fabric.cable = 40_GBps;
  // Enough places for every node: routers of two nodes, two per group; a ring of nodes.
  fabric.routers_per_group = 2;
  fabric.groups = (nodes + 2 * nodes_per_leaf - 1) / (2 * nodes_per_leaf);
  fabric.global_links = fabric.groups;
  fabric.dimensions = {(nodes + 1) / 2, 2};
  for (int gpu = 0; gpu + 1 < gpus; ++gpu) cluster.node.pairs.push_back({gpu, gpu + 1, 2});
  return cluster;
}

}  // namespace sim::topology
