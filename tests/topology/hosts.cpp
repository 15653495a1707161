// Where a job's nodes stand, and rates that were measured between nodes.
#include <catch2/catch.hpp>

#include "clusters.h"
#include "sim/topology/routes.h"

using namespace sim;
using namespace sim::topology;

TEST_CASE("topology: ranks follow the order of the hosts") {
  Cluster cluster = test_cluster(4, 2, 2, FabricKind::fat_tree);
  CHECK(gpu_of_rank(cluster, 5) == 5);
  CHECK(nodes_reached(cluster, 2) == 2);
  cluster.hosts = {2, 0, 3, 1};
  CHECK(problems(cluster).empty());
  CHECK(gpu_of_rank(cluster, 0) == 4);
  CHECK(gpu_of_rank(cluster, 5) == 7);  // the second GPU of the job's node 2, which is node 3
  CHECK(nodes_reached(cluster, 1) == 3);
  CHECK(nodes_reached(cluster, 3) == 4);
  CHECK(first_nodes(cluster, 3).hosts.empty());
  for (const std::vector<int>& wrong : {std::vector{0, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, 4}}) {
    cluster.hosts = wrong;
    CHECK(problems(cluster).size() == 1);
  }
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
