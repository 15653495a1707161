// graph.cpp — graphs of clusters: every kind of node and fabric keeps the invariants of the
// headers.
#ifndef __clang__  // g++ 12 sees an uninitialised Boost optional in the maximum flow below
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "sim/cluster/topology/graph.h"

#include <boost/graph/strong_components.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "sim/cluster/topology/bisection.h"
#include "sim/cluster/topology/routes.h"
#include "tests/cluster/topology/clusters.h"
#include "tests/cluster/topology/measures.h"

using namespace sim;
using namespace sim::topology;

namespace {

constexpr FabricKind all_kinds[] = {
    FabricKind::single_switch, FabricKind::fat_tree,   FabricKind::rail_optimised,
    FabricKind::three_level,   FabricKind::leaf_spine, FabricKind::dragonfly,
    FabricKind::torus};  // fabrics in which every NIC reaches every other
constexpr GpuInterconnect all_interconnects[] = {GpuInterconnect::nvswitch, GpuInterconnect::mesh,
                                                 GpuInterconnect::pcie, GpuInterconnect::direct};

// One stretch as a separate path.
Path stretch(const Routes& routes, void (Routes::*way)(int, int, Path&) const, int from, int to) {
  Path path;
  (routes.*way)(from, to, path);
  return path;
}

std::vector<Cluster> small_worlds() {
  std::vector<Cluster> all;
  for (const FabricKind kind : all_kinds) {
    for (const GpuInterconnect interconnect : all_interconnects) {
      for (const int nodes : {1, 2, 3, 5, 8}) {
        for (const auto& [gpus, nics] : {std::pair{1, 1}, {4, 4}, {8, 4}, {8, 8}, {2, 8}}) {
          all.push_back(test_cluster(nodes, gpus, nics, kind, 2, 2.0, interconnect));
        }
      }
    }
  }
  return all;
}

}  // namespace

// Small clusters that cover each kind of fabric and of node.
TEST_CASE(
    "topology: a condition that is taken changes a link or a speed, and parts are all known") {
  const auto links = [](const Graph& graph) {
    std::vector<std::int64_t> all;
    for (auto [edge, end] = boost::edges(graph); edge != end; ++edge)
      all.push_back(graph[*edge].capacity.bytes_per_second);
    return all;
  };
  for (Cluster cluster : small_worlds()) {
    if (cluster.nodes < 2 || cluster.nodes > 3 || cluster.node.gpus > 4) continue;
    const Graph graph = build_graph(cluster);
    const std::vector<std::int64_t> before = links(graph);
    const auto taken = [&](const Condition& condition) {
      cluster.conditions = {condition};
      return problems(cluster).empty();
    };
    std::vector<Condition> parts;
    for (int i = 0; i < 9; ++i) {
      parts.push_back({.leaf = i});
      parts.push_back({.spine = i});
      parts.push_back({.node = i});
      parts.push_back({.node = 0, .gpu = i});
      parts.push_back({.node = 0, .nic = i});
    }
    const FabricKind kind = cluster.fabric.kind;
    const bool trunks = count(graph, VertexKind::leaf) > 1;
    const bool leaves = kind != FabricKind::single_switch && kind != FabricKind::torus;
    for (Condition c : parts) {
      INFO(name(kind) << " " << name(cluster.node.interconnect) << " " << cluster.nodes << " x "
                      << cluster.node.gpus << ": node " << c.node << " gpu " << c.gpu << " nic "
                      << c.nic << " leaf " << c.leaf << " spine " << c.spine);
      c.bandwidth = 0.5;
      const bool there =
          c.leaf >= 0    ? leaves && c.leaf < count(graph, VertexKind::leaf)
          : c.spine >= 0 ? kind == FabricKind::leaf_spine && c.spine < cluster.fabric.spines
          : c.node >= cluster.nodes ? false
          : c.nic >= 0
              ? c.nic < cluster.node.nics
              : c.gpu < cluster.node.gpus && cluster.node.interconnect != GpuInterconnect::pcie;
      CHECK(taken(c) == there);
      const bool alone = c.node < 0 ? !trunks : c.nic < 0 && cluster.node.gpus == 1;
      if (there && !alone) CHECK(links(build_graph(cluster)) != before);
      c.bandwidth = 1;
      c.speed = 0.5;
      const bool gpus = c.node >= 0 && c.node < cluster.nodes && c.nic < 0;
      CHECK(taken(c) == (gpus && c.gpu < cluster.node.gpus));
    }
    CHECK_FALSE(taken({.node = 0, .gpu = 0, .nic = 0, .bandwidth = 0.5}));
  }
}

TEST_CASE("topology: every kind of cluster is strongly connected and every cable goes both ways") {
  for (const Cluster& cluster : small_worlds()) {
    INFO(name(cluster.fabric.kind) << " " << name(cluster.node.interconnect) << " " << cluster.nodes
                                   << " x " << cluster.node.gpus);
    REQUIRE(problems(cluster).empty());
    const Graph graph = build_graph(cluster);
    CHECK(count(graph, VertexKind::gpu) == cluster.gpus());
    CHECK(count(graph, VertexKind::nic) == cluster.nodes * cluster.node.nics);
    std::vector<std::size_t> component(boost::num_vertices(graph));
    CHECK(boost::strong_components(
              graph, boost::make_iterator_property_map(
                         component.begin(), boost::get(boost::vertex_index, graph))) == 1);
    std::set<int> ids;
    for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
      const auto back =
          boost::edge(boost::target(*edge, graph), boost::source(*edge, graph), graph);
      REQUIRE(back.second);
      CHECK(graph[back.first].capacity == graph[*edge].capacity);
      ids.insert(graph[*edge].id);
    }
    CHECK(*ids.begin() == 0);
    CHECK(*ids.rbegin() == static_cast<int>(ids.size()) - 1);
    CHECK(ids.size() == boost::num_edges(graph));
  }
}

TEST_CASE("topology: degrees and diameters equal their closed forms") {
  // 8 nodes x 4 NICs, 2 nodes per leaf. Leaves: 1, 8/2 = 4, 4 units x 4 rails = 16. Ports down: all
  // 32 NICs, 2 x 4, 2. Between NICs: 2 hops on one leaf, 4 across the spine.
  const struct {
    FabricKind kind;
    int leaves, down, diameter;
  } cases[] = {{FabricKind::single_switch, 1, 32, 2},
               {FabricKind::fat_tree, 4, 8, 4},
               {FabricKind::rail_optimised, 16, 2, 4}};
  for (const auto& expected : cases) {
    const Graph graph = build_graph(test_cluster(8, 4, 4, expected.kind));
    INFO(name(expected.kind));
    CHECK(count(graph, VertexKind::leaf) == expected.leaves);
    const int spines = expected.leaves > 1 ? 1 : 0;
    CHECK(count(graph, VertexKind::spine) == spines);
    for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
      const auto degree = static_cast<int>(boost::out_degree(v, graph));
      if (graph[v].kind == VertexKind::leaf) CHECK(degree == expected.down + spines);
      if (graph[v].kind == VertexKind::spine) CHECK(degree == expected.leaves);
      // A GPU has its NVSwitch and its PCIe switch.
      if (graph[v].kind == VertexKind::gpu) CHECK(degree == 2);
    }
    const Routes routes(test_cluster(8, 4, 4, expected.kind));
    std::size_t longest = 0;
    for (int a = 0; a < 32; ++a) {
      for (int b = 0; b < 32; ++b) {
        if (a / 4 != b / 4)
          longest = std::max(longest, stretch(routes, &Routes::between_nics, a, b).links.size());
      }
    }
    CHECK(static_cast<int>(longest) == expected.diameter);
  }
}

TEST_CASE("topology: the bisection is half of the NICs over the oversubscription") {
  // 8 nodes x 4 NICs x 20 GB/s: half of them is 16 NICs, 320 GB/s.
  for (const double oversubscription : {1.0, 2.0, 4.0}) {
    for (const FabricKind kind : {FabricKind::fat_tree, FabricKind::rail_optimised}) {
      const Graph graph = build_graph(test_cluster(8, 4, 4, kind, 2, oversubscription));
      CHECK(bisection(graph, 4) == Approx(320e9 / oversubscription).epsilon(1e-9));
    }
  }
  const Graph crossbar = build_graph(test_cluster(8, 4, 4, FabricKind::single_switch));
  CHECK(bisection(crossbar, 4) == Approx(320e9).epsilon(1e-9));
}

TEST_CASE("topology: rails meet only at the spine") {
  const Routes routes(test_cluster(4, 4, 4, FabricKind::rail_optimised, 4));
  CHECK(stretch(routes, &Routes::between_nics, 1, 5).links.size() ==
        2);  // NIC 1 of nodes 0 and 1: one leaf
  CHECK(stretch(routes, &Routes::between_nics, 1, 6).links.size() == 4);  // rail 1 to rail 2
  // One leaf crossing costs 1 us, leaf - spine - leaf 3 us more.
  CHECK(stretch(routes, &Routes::between_nics, 1, 5).latency == Duration{1'000'000});
  CHECK(stretch(routes, &Routes::between_nics, 1, 6).latency == Duration{4'000'000});
}

TEST_CASE("topology: routes are simple paths from end to end and between NICs the shortest") {
  for (const Cluster& cluster : small_worlds()) {
    const Graph graph = build_graph(cluster);
    const Routes routes(cluster);
    std::vector<std::pair<std::size_t, std::size_t>> ends(
        static_cast<std::size_t>(routes.link_count()));
    for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
      ends[static_cast<std::size_t>(graph[*edge].id)] = {boost::source(*edge, graph),
                                                         boost::target(*edge, graph)};
    }
    const auto walk = [&](const Path& path, std::size_t from, std::size_t to) {
      std::set<std::size_t> visited = {from};
      std::size_t at = from;
      for (const int link : path.links) {
        const auto [a, b] = ends[static_cast<std::size_t>(link)];
        REQUIRE(a == at);
        REQUIRE(visited.insert(b).second);
        at = b;
      }
      REQUIRE(at == to);
    };
    const NodeLayout layout(cluster.node);
    const auto vertex = [&](int node, int offset) {
      return static_cast<std::size_t>(node * layout.size() + offset);
    };
    for (int node = 0; node < cluster.nodes; ++node) {
      for (int a = 0; a < cluster.node.gpus; ++a) {
        const int gpu = node * cluster.node.gpus + a;
        for (int b = 0; b < cluster.node.gpus; ++b) {
          walk(stretch(routes, &Routes::between_gpus, gpu, node * cluster.node.gpus + b),
               vertex(node, a), vertex(node, b));
        }
        for (const int nic : nics_of_gpu(cluster.node, a)) {
          const int id = node * cluster.node.nics + nic;
          // Its own NIC is on the GPU's own PCIe switch.
          CHECK(stretch(routes, &Routes::gpu_to_nic, gpu, id).links.size() == 2);
          walk(stretch(routes, &Routes::gpu_to_nic, gpu, id), vertex(node, a),
               vertex(node, layout.nic(nic)));
          walk(stretch(routes, &Routes::nic_to_gpu, id, gpu), vertex(node, layout.nic(nic)),
               vertex(node, a));
        }
      }
    }
    const std::vector<std::size_t> nics = nic_vertices(graph);
    for (std::size_t a = 0; a < nics.size(); a += 3) {
      const std::vector<int> hops = hops_from(graph, nics[a]);
      for (std::size_t b = 0; b < nics.size(); ++b) {
        if (graph[nics[a]].node == graph[nics[b]].node) continue;
        const Path path =
            stretch(routes, &Routes::between_nics, static_cast<int>(a), static_cast<int>(b));
        walk(path, nics[a], nics[b]);
        CHECK(static_cast<int>(path.links.size()) == hops[nics[b]]);
      }
    }
  }
}

TEST_CASE("topology: paths among the first nodes are those of the whole cluster") {
  for (const Cluster& whole : small_worlds()) {
    const Routes all(whole);
    for (int nodes = 2; nodes < whole.nodes; ++nodes) {
      const Routes part(first_nodes(whole, nodes));
      const int nics = nodes * whole.node.nics;
      for (int a = 0; a < nics; ++a) {
        for (int b = 0; b < nics; ++b) {
          if (a / whole.node.nics == b / whole.node.nics) continue;
          const Path x = stretch(all, &Routes::between_nics, a, b);
          const Path y = stretch(part, &Routes::between_nics, a, b);
          REQUIRE(x.links.size() == y.links.size());
          REQUIRE(x.latency == y.latency);
          for (std::size_t i = 0; i < x.links.size(); ++i) {
            REQUIRE(all.link(x.links[i]).capacity == part.link(y.links[i]).capacity);
            REQUIRE(all.link(x.links[i]).kind == part.link(y.links[i]).kind);
          }
        }
      }
    }
  }
}

TEST_CASE("topology: a path inside a node takes NVLink where there is one") {
  const auto kinds_of = [](GpuInterconnect interconnect) {
    const Routes routes(test_cluster(1, 4, 4, FabricKind::single_switch, 1, 1, interconnect));
    std::vector<LinkKind> kinds;
    for (const int id : stretch(routes, &Routes::between_gpus, 0, 3).links)
      kinds.push_back(routes.link(id).kind);
    return kinds;
  };
  using enum LinkKind;
  CHECK(kinds_of(GpuInterconnect::nvswitch) == std::vector{nvlink, nvlink});
  CHECK(kinds_of(GpuInterconnect::mesh) == std::vector{nvlink});
  // GPU, its PCIe switch, the host, the other switch, the other GPU.
  CHECK(kinds_of(GpuInterconnect::pcie) == std::vector{pcie, pcie, pcie, pcie});
}

TEST_CASE("topology: a GPU owns its NIC and those above that nobody names") {
  CHECK(nics_of_gpu(test_cluster(1, 8, 4, FabricKind::fat_tree).node, 5) == std::vector{2});
  CHECK(nics_of_gpu(test_cluster(1, 2, 8, FabricKind::fat_tree).node, 1) ==
        std::vector{4, 5, 6, 7});
}

TEST_CASE("topology: bad parameters are refused, each by its own rule") {
  const auto refusals = [](auto change) {
    Cluster cluster = test_cluster(4, 8, 4, FabricKind::fat_tree);
    change(cluster);
    return problems(cluster).size();
  };
  CHECK(refusals([](Cluster&) {}) == 0);
  CHECK(refusals([](Cluster& c) { c.nodes = 0; }) == 1);
  CHECK(refusals([](Cluster& c) { c.nodes = 100'000'000; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nvlinks_per_gpu = 0; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nvlink = {}; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.pcie = {-1}; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nic = {}; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nic_of_gpu.pop_back(); }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nic_of_gpu[0] = 4; }) == 1);
  CHECK(refusals([](Cluster& c) { c.node.nics = 0, c.node.nic_of_gpu.clear(); }) == 1);
  CHECK(refusals([](Cluster& c) { c.fabric.nodes_per_leaf = 0; }) == 1);
  CHECK(refusals([](Cluster& c) { c.fabric.oversubscription = 0; }) == 1);
  CHECK(refusals([](Cluster& c) { c.fabric.spine_hop = Duration{-1}; }) == 1);
  // The maximum number of routers, and one more.
  const auto torus = [&](std::vector<int> dimensions) {
    return refusals([&](Cluster& c) {
      c.fabric.kind = FabricKind::torus;
      c.fabric.cable = Bandwidth{1'000'000'000};
      c.fabric.dimensions = std::move(dimensions);
    });
  };
  CHECK(torus({1024, 1024}) == 0);
  CHECK(torus({1 << 20}) == 0);
  CHECK(torus({(1 << 20) + 1}) == 1);
  CHECK(torus({4}) == 0);
  CHECK(torus({3}) == 1);
  CHECK(torus({4, 1, 1, 1, 1, 1, 1, 1}) == 0);
  CHECK(torus({4, 1, 1, 1, 1, 1, 1, 1, 1}) == 1);
  CHECK(torus({4, 0}) == 2);
  CHECK(torus({}) == 2);
  const auto dragonfly = [&](int groups, int routers, int links, int nodes) {
    return refusals([&](Cluster& c) {
      c.fabric.kind = FabricKind::dragonfly;
      c.fabric.cable = Bandwidth{1'000'000'000};
      c.fabric.groups = groups;
      c.fabric.routers_per_group = routers;
      c.fabric.global_links = links;
      c.fabric.nodes_per_leaf = nodes;
    });
  };
  CHECK(dragonfly(2, 2, 1, 1) == 0);
  CHECK(dragonfly(2, 1, 1, 1) == 1);  // two places for four nodes
  CHECK(dragonfly(3, 2, 1, 1) == 0);  // two links to two other groups
  CHECK(dragonfly(4, 2, 1, 1) == 1);
  CHECK(dragonfly(1, 4, 0, 1) == 0);
  CHECK(dragonfly(16, 4096, 1, 1) == 0);
  CHECK(dragonfly(17, 4096, 1, 1) == 1);
  CHECK(dragonfly(4096, 16, 4096, 1) == 0);
  CHECK(dragonfly(4096, 16, 4097, 1) == 1);
  CHECK(dragonfly(4097, 15, 4096, 1) == 1);
  CHECK(dragonfly(15, 4097, 1, 1) == 1);
  // All problems at once.
  CHECK(refusals([](Cluster& c) { c.nodes = 0, c.node.pcie = {}, c.fabric.nodes_per_leaf = 0; }) ==
        3);
}

TEST_CASE("topology: every kind of fabric is a file of its name with a source") {
  CHECK(fabric_catalog().size() == std::size(all_kinds) + 1);
  for (const FabricEntry& entry : fabric_catalog()) {
    INFO(entry.name);
    const auto folder = std::filesystem::path(REHEARSE_SOURCE_DIR) / "sim/cluster/topology";
    CHECK(std::filesystem::exists(folder / (std::string(entry.name) + ".cpp")));
    CHECK_FALSE(entry.summary.empty());
    CHECK_FALSE(entry.source.empty());
  }
}

TEST_CASE("topology: a cluster of 16384 GPUs is built and routed") {
  const Routes routes(test_cluster(2048, 8, 8, FabricKind::rail_optimised, 32));
  CHECK(stretch(routes, &Routes::between_nics, 0, 2047 * 8).links.size() == 4);
  CHECK(stretch(routes, &Routes::between_nics, 0, 31 * 8).links.size() == 2);
}
