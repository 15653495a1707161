// hosts.cpp — the placement of a job's nodes, and measured rates between nodes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "clusters.h"
#include "sim/cluster/topology/host.h"
#include "sim/cluster/topology/routes.h"

using namespace sim;
using namespace sim::topology;

TEST_CASE("topology: ranks follow the order of the hosts") {
  Cluster cluster = test_cluster(4, 2, 2, FabricKind::fat_tree);
  CHECK(gpu_of_rank(cluster, 5) == 5);
  CHECK(nodes_reached(cluster, 2) == 2);
  cluster.hosts = {2, 0, 3, 1};
  CHECK(problems(cluster).empty());
  CHECK(gpu_of_rank(cluster, 0) == 4);
  // The second GPU of the job's node 2, which is the cluster's node 3.
  CHECK(gpu_of_rank(cluster, 5) == 7);
  CHECK(nodes_reached(cluster, 1) == 3);
  CHECK(nodes_reached(cluster, 3) == 4);
  CHECK(first_nodes(cluster, 3).hosts.empty());
  for (const std::vector<int>& wrong : {std::vector{0, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, 4}}) {
    cluster.hosts = wrong;
    CHECK(problems(cluster).size() == 1);
  }
}

TEST_CASE("topology: a draw is an order of all nodes, and only nodes that are alike are drawn") {
  Cluster cluster = test_cluster(64, 2, 2, FabricKind::fat_tree);
  CHECK_FALSE(scatters(cluster));
  cluster.scattered = true;
  CHECK(scatters(cluster));
  std::set<std::vector<int>> orders;
  for (int draw = 0; draw < 8; ++draw) {
    std::vector<int> nodes = drawn_nodes(cluster, draw);
    CHECK(nodes == drawn_nodes(cluster, draw));
    orders.insert(nodes);
    std::ranges::sort(nodes);
    std::vector<int> all(64);
    std::iota(all.begin(), all.end(), 0);
    CHECK(nodes == all);
  }
  CHECK(orders.size() == 8);
  Cluster told = cluster;
  told.hosts = drawn_nodes(cluster, 0);
  CHECK_FALSE(scatters(told));
  told = cluster;
  told.conditions = {{.node = 1, .speed = 0.5}};
  CHECK_FALSE(scatters(told));
  told = cluster;
  told.gpu_kinds.assign(64, 0);
  CHECK_FALSE(scatters(told));
  told = cluster;
  told.rates.names.assign(64, "a");
  CHECK_FALSE(scatters(told));
}

TEST_CASE("topology: a measured rate is one more link between two nodes") {
  Cluster cluster = test_cluster(3, 2, 2, FabricKind::fat_tree);
  const Routes plain(cluster);
  cluster.rates.names = {"a", "b", "c", "d"};  // more than the cluster has
  for (int i = 0; i < 16; ++i) cluster.rates.bytes_per_second.push_back(1e9 + i);
  CHECK(problems(cluster).empty());
  const Routes routes(cluster);
  CHECK(routes.link_count() == plain.link_count() + 6);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      Path before, path;
      plain.between_nics(2 * from, 2 * to + 1, before);
      routes.between_nics(2 * from, 2 * to + 1, path);
      REQUIRE(path.links.size() == before.links.size() + 1);
      CHECK(path.latency == before.latency);
      const int link = path.links.back();
      CHECK(routes.link(link).kind == LinkKind::measured);
      CHECK(routes.source(link).node == from);
      CHECK(routes.target(link).node == to);
      CHECK(routes.link(link).capacity.bytes_per_second == 1'000'000'000 + 4 * from + to);
    }
  }
  cluster.nodes = 5;
  CHECK_FALSE(problems(cluster).empty());
}

TEST_CASE("topology: what CPUs give a GPU follows the sheets of the node and the levels of hosts") {
  Node node;
  node.gpus = 8;
  node.sockets = 2;
  node.pcie = Bandwidth{60'000'000'000};
  node.host = {.copied = 0.5,
               .carried = 0.25,
               .core = Bandwidth{10'000'000'000},
               .socket_memory = Bandwidth{100'000'000'000}};
  // Without data sheets: a share of PCIe's bandwidth and of two sockets' memory, for each of two
  // ranks.
  CHECK(host_rates(node, 2).copy.bytes_per_second == 30'000'000'000);
  CHECK(host_rates(node, 2).memory.bytes_per_second == 25'000'000'000);
  CHECK(host_rates(node, 1).memory.bytes_per_second == 50'000'000'000);
  // At most the number of its GPUs.
  CHECK(host_rates(node, 16).memory.bytes_per_second == 6'250'000'000);
  // With data sheets: the node's own; 1 / (2 / 200 GB/s + 8 / 400 GB/s) with 40 cores.
  node.host_copy = Bandwidth{55'000'000'000};
  node.cpu_memory_bandwidth = Bandwidth{800'000'000'000};
  CHECK(host_rates(node, 2).copy.bytes_per_second == 55'000'000'000);
  CHECK(host_rates(node, 2).memory.bytes_per_second == 100'000'000'000);
  node.cpu_cores = 40;
  CHECK(host_rates(node, 2).memory.bytes_per_second == Approx(1e9 / (2 / 200.0 + 8 / 400.0)));
}

TEST_CASE("topology: a job fills whole nodes but for the last") {
  CHECK(nodes_of(0, 8) == 0);
  CHECK(nodes_of(1, 8) == 1);
  CHECK(nodes_of(8, 8) == 1);
  CHECK(nodes_of(9, 8) == 2);
  CHECK(nodes_of(16, 8) == 2);
  CHECK(nodes_of(3, 1) == 3);
}
