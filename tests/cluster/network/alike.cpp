// alike.cpp — the traffic of rings and trees: one node of all alike nodes gives the same rates as
// all of them.
#include <catch2/catch.hpp>
#include <set>

#include "sim/cluster/network/flows.h"
#include "sim/cluster/network/solver.h"
#include "sim/cluster/topology/inspect.h"
#include "sim/job/mesh/communicators.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using mesh::Communicator;
using topology::Cluster;
using topology::FabricKind;

namespace {

struct Case {
  std::string name;
  Cluster cluster;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, const System& system, FabricKind kind, auto change) {
    Case c{std::move(name), cluster_of(system, 16)};
    c.cluster.fabric.kind = kind;
    change(c.cluster.fabric);
    REQUIRE(topology::problems(c.cluster).empty());
    all.push_back(std::move(c));
  };
  const auto as_is = [](topology::Fabric&) {};
  const auto narrow = [](topology::Fabric& f) { f.oversubscription = 3; };
  add("fat tree", h100_8ndr, FabricKind::fat_tree, as_is);
  add("fat tree, narrow", h100_8ndr, FabricKind::fat_tree, narrow);
  add("NICs shared by two GPUs", a100_4hdr, FabricKind::fat_tree, narrow);
  add("mesh", h100_mesh, FabricKind::rail_optimised, narrow);
  add("rails", a100_8hdr, FabricKind::rail_optimised, narrow);
  add("rails that never meet", h100_8ndr, FabricKind::rail_only, as_is);
  add("one switch", h100_8ndr, FabricKind::single_switch,
      [](topology::Fabric& f) { f.nodes_per_leaf = 0; });
  add("pods", h100_8ndr, FabricKind::three_level, [](topology::Fabric& f) {
    f.nodes_per_leaf = f.leaves_per_pod = 2;
    f.pod_oversubscription = 7;
  });
  add("spines", h100_8ndr, FabricKind::leaf_spine, [](topology::Fabric& f) {
    f.spines = 5;
    f.oversubscription = 2;
  });
  add("torus", a100_8hdr, FabricKind::torus, [](topology::Fabric& f) {
    f.nodes_per_leaf = 0;
    f.dimensions = {4, 4};
    f.cable = gbps(60);
  });
  return all;
}

// Groups of a rank order that makes nodes differ: some ranks are exchanged.
std::vector<std::vector<int>> moved(std::vector<std::vector<int>> groups, int by) {
  for (std::vector<int>& group : groups)
    for (int& rank : group)
      if (rank == 3 || rank == 3 + by) rank = 6 + by - rank;
  return groups;
}

Traffic traffic_of(Pattern pattern, const std::vector<std::vector<int>>& groups, const Cluster& c,
                   Of of) {
  const topology::Routes routes(c);
  std::vector<GroupNodes> spreads;
  for (const std::vector<int>& ranks : groups) spreads.push_back(spread(ranks, c));
  LinkPlaces places;
  return traffic(pattern, spreads, groups, routes, Achieved{}, 2, places, of);
}

}  // namespace

TEST_CASE("network: a group is spread over its nodes in any order of ranks") {
  const Cluster cluster = cases().front().cluster;
  const int gpus = cluster.node.gpus, nodes = std::min(cluster.nodes, 4);
  std::vector<int> ranks;
  for (int local = 0; local < gpus; ++local)
    for (int node = nodes; node-- > 0;) ranks.push_back((node * 3 % nodes) * gpus + local);
  const GroupNodes found = spread(ranks, cluster);
  REQUIRE(static_cast<int>(found.size()) == nodes);
  for (int i = 0; i < nodes; ++i) {
    const Locals& locals = found[static_cast<std::size_t>(i)];
    CHECK(locals.node == ranks[static_cast<std::size_t>(i)] / gpus);  // as its first rank comes
    REQUIRE(static_cast<int>(locals.gpus.size()) == gpus);
    for (int local = 0; local < gpus; ++local)
      CHECK(locals.gpus[static_cast<std::size_t>(local)] == locals.node * gpus + local);
  }
}

TEST_CASE("network: one node of all that are alike gives the rates that all of them give") {
  SolverOptions options;
  options.cache = "";
  Solver solver(options);
  std::size_t fewer = 0;
  for (const Case& c : cases()) {
    const int gpus = c.cluster.gpus();
    for (const mesh::Degrees degrees :
         {mesh::Degrees{.tp = 2, .cp = 2, .dp = gpus / 8, .pp = 2},
          mesh::Degrees{
              .tp = c.cluster.node.gpus, .cp = 1, .dp = 4, .pp = gpus / 4 / c.cluster.node.gpus},
          mesh::Degrees{.tp = 1, .cp = 4, .dp = gpus / 4, .pp = 1}}) {
      for (const Communicator kind :
           {Communicator::tp, Communicator::cp, Communicator::dp_cp, Communicator::world}) {
        for (const int by : {0, 4, 13}) {
          const auto groups = moved(mesh::groups(kind, degrees).ranks, by);
          if (groups.front().size() == 1) continue;
          for (const Pattern pattern : {Pattern::ring, Pattern::tree, Pattern::nvls_tree}) {
            INFO(c.name << ", communicator " << static_cast<int>(kind) << ", pattern "
                        << static_cast<int>(pattern) << ", moved by " << by);
            const Traffic all = traffic_of(pattern, groups, c.cluster, Of::all_nodes);
            const Traffic one = traffic_of(pattern, groups, c.cluster, Of::one_of_alike);
            CHECK(one.extra == all.extra);
            CHECK(one.group == all.group);
            CHECK(one.inside == all.inside);
            CHECK(one.links.size() <= all.links.size());
            fewer += all.links.size() - one.links.size();
            const auto a = solver.solve(all.query), b = solver.solve(one.query);
            REQUIRE(a);
            REQUIRE(b);
            CHECK(*a == *b);
          }
        }
      }
    }
  }
  CHECK(fewer > 0);
}

// Eight nodes below a leaf, a ring over all: the links of one node, and those to the spine.
TEST_CASE("network: of nodes that are alike the links of one are counted") {
  Cluster c = cluster_of(h100_8ndr, 16);
  c.fabric.nodes_per_leaf = 8;
  const auto world = mesh::groups(Communicator::world, {.tp = 8, .cp = 1, .dp = 16, .pp = 1}).ranks;
  const Traffic one = traffic_of(Pattern::ring, world, c, Of::one_of_alike);
  const Traffic all = traffic_of(Pattern::ring, world, c, Of::all_nodes);
  const topology::Routes routes(c);
  std::set<int> nodes, of_all;
  std::size_t between = 0;
  const auto own_node = [&](int link) {
    return std::max(routes.source(link).node, routes.target(link).node);
  };
  for (const int link : one.links) {
    if (own_node(link) >= 0) {
      nodes.insert(own_node(link));
    } else {
      ++between;
    }
  }
  for (const int link : all.links) of_all.insert(own_node(link));
  CHECK(nodes == std::set<int>{0});
  CHECK(of_all.size() == 17);
  CHECK(one.links.size() - between == (all.links.size() - between) / 16);

  // A condition makes nodes different.
  c.conditions.push_back({.node = 3, .nic = 2, .bandwidth = 0.5});
  CHECK(traffic_of(Pattern::ring, world, c, Of::one_of_alike).query ==
        traffic_of(Pattern::ring, world, c, Of::all_nodes).query);
}
