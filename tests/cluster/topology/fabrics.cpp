// fabrics.cpp — every kind of fabric against its closed forms, over all small sizes.
#include <catch2/catch.hpp>
#include <numeric>

#include "sim/cluster/topology/bisection.h"
#include "sim/cluster/topology/graph_builder.h"
#include "sim/cluster/topology/routes.h"
#include "tests/cluster/topology/clusters.h"
#include "tests/cluster/topology/measures.h"

using namespace sim;
using namespace sim::topology;

namespace {

// Most switches and cables between two NICs of different nodes, by breadth-first search.
int diameter(const Graph& graph) {
  int longest = 0;
  for (const std::size_t a : nic_vertices(graph)) {
    const std::vector<int> hops = fabric_hops(graph, a);
    for (const std::size_t b : nic_vertices(graph)) {
      if (graph[a].node != graph[b].node) longest = std::max(longest, hops[b]);
    }
  }
  return longest;
}

int network_degree(const Graph& graph, std::size_t v) {
  int degree = 0;
  for (auto [edge, end] = boost::out_edges(v, graph); edge != end; ++edge) {
    const Vertex& to = graph[boost::target(*edge, graph)];
    degree += graph[*edge].kind == LinkKind::network && to.node < 0;
  }
  return degree;
}

}  // namespace

TEST_CASE("topology: a three-level tree has its degrees and diameter and bisection") {
  for (const int pods : {1, 2, 4}) {
    for (const int leaves : {1, 2, 3}) {
      for (const int per_leaf : {1, 2}) {
        Cluster c =
            test_cluster(pods * leaves * per_leaf, 4, 2, FabricKind::three_level, per_leaf, 2);
        c.fabric.leaves_per_pod = leaves;
        c.fabric.pod_oversubscription = 3;
        if (c.nodes == 1) continue;
        INFO(pods << " pods of " << leaves << " leaves of " << per_leaf);
        REQUIRE(problems(c).empty());
        const Graph graph = build_graph(c);
        CHECK(count(graph, VertexKind::leaf) == pods * leaves);
        CHECK(count(graph, VertexKind::spine) == (pods * leaves > 1 ? pods : 0));
        CHECK(count(graph, VertexKind::core) == (pods > 1 ? 1 : 0));
        CHECK(diameter(graph) == (pods > 1 ? 6 : leaves > 1 ? 4 : 2));
        if (pods % 2 != 0) continue;
        // Half of the pods' NICs, 20 GB/s each, over 2 x 3.
        CHECK(bisection(graph, c.nodes / 2) == Approx(c.nodes / 2 * 2 * 20e9 / 6).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("topology: rails that never meet are reached within the rail alone") {
  for (const int nodes : {2, 3, 6}) {
    for (const int nics : {1, 2, 8}) {
      const Cluster c = test_cluster(nodes, 8, nics, FabricKind::rail_only);
      const Graph graph = build_graph(c);
      CHECK(count(graph, VertexKind::leaf) == nics);
      CHECK(count(graph, VertexKind::spine) == 0);
      for (const std::size_t a : nic_vertices(graph)) {
        const std::vector<int> hops = fabric_hops(graph, a);
        for (const std::size_t b : nic_vertices(graph)) {
          if (a == b) continue;
          CHECK(hops[b] == (graph[a].index == graph[b].index ? 2 : -1));
        }
      }
      if (nodes % 2 == 0) CHECK(bisection(graph, nodes / 2) == Approx(nodes / 2 * nics * 20e9));
    }
  }
}

TEST_CASE("topology: leaves and spines are joined by a cable each") {
  for (const int leaves : {2, 3, 4}) {
    for (const int spines : {1, 2, 5}) {
      Cluster c = test_cluster(2 * leaves, 4, 4, FabricKind::leaf_spine, 2, 2);
      c.fabric.spines = spines;
      const Graph graph = build_graph(c);
      CHECK(count(graph, VertexKind::spine) == spines);
      for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
        if (graph[v].kind == VertexKind::leaf) CHECK(network_degree(graph, v) == spines);
        if (graph[v].kind == VertexKind::spine) CHECK(network_degree(graph, v) == leaves);
      }
      CHECK(diameter(graph) == 4);
      // Two nodes of four NICs on a leaf at 20 GB/s, over 2.
      if (leaves % 2 == 0) {
        CHECK(bisection(graph, c.nodes / 2) == Approx(leaves / 2 * 8 * 20e9 / 2).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("topology: flows spread over the spines that work and nothing else") {
  Cluster c = test_cluster(16, 4, 4, FabricKind::leaf_spine, 8);
  c.fabric.spines = 4;
  const auto spread = [](const Cluster& cluster) {
    const Routes routes(cluster);
    std::vector<int> uses(static_cast<std::size_t>(routes.link_count()), 0);
    for (int a = 0; a < 32; ++a) {
      for (int b = 32; b < 64; ++b) {
        Path path;
        routes.between_nics(a, b, path);
        REQUIRE(path.links.size() == 4);
        ++uses[static_cast<std::size_t>(path.links[1])];
      }
    }
    std::erase(uses, 0);
    return uses;
  };
  // 1,024 flows over 4 spines: about 256 each (a binomial of deviation 14).
  const std::vector<int> all = spread(c);
  REQUIRE(all.size() == 4);
  for (const int n : all) CHECK(std::abs(n - 256) < 60);
  // Another seed spreads as evenly, but otherwise.
  c.fabric.hash_seed = 1;
  const std::vector<int> other = spread(c);
  REQUIRE(other.size() == 4);
  for (const int n : other) CHECK(std::abs(n - 256) < 60);
  CHECK(other != all);
  // The flows of a failed spine take the next one, also where that has failed; others stay.
  c.conditions = {{.spine = 1, .bandwidth = 0}};
  CHECK(spread(c) == std::vector<int>{other[0], other[2] + other[1], other[3]});
  c.conditions = {{.spine = 3, .bandwidth = 0}};
  CHECK(spread(c) == std::vector<int>{other[0] + other[3], other[1], other[2]});
  c.conditions.push_back({.spine = 2, .bandwidth = 0});
  CHECK(spread(c) == std::vector<int>{other[0] + other[2] + other[3], other[1]});
}

TEST_CASE("topology: a share of the GPUs is slow at one moment") {
  Cluster c = test_cluster(512, 8, 8, FabricKind::rail_optimised, 2);
  c.jitter.slow_share = 0.25;
  c.jitter.slow_factor = 1.34;
  CHECK_FALSE(alike(c));
  int slow = 0;
  for (int gpu = 0; gpu < 4096; ++gpu) {
    const double speed = speed_of_gpu(c, gpu);
    if (speed < 1) {
      ++slow;
      CHECK(speed == Approx(1 / 1.34).epsilon(1e-5));
    }
  }
  CHECK(std::abs(slow - 1024) < 120);  // a binomial of deviation 28
}

TEST_CASE("topology: jitter is a GPU's own, whatever the cluster's size, and half-normal") {
  Cluster c = test_cluster(16, 8, 8, FabricKind::rail_optimised, 2);
  CHECK(alike(c));
  c.jitter = {0.05, 3};
  CHECK_FALSE(alike(c));
  Cluster large = c;
  large.nodes = 4096;
  double sum = 0;
  int slow = 0;
  for (int gpu = 0; gpu < 128; ++gpu) {
    const double slowdown = 1 / speed_of_gpu(c, gpu) - 1;
    CHECK(speed_of_gpu(large, gpu) == speed_of_gpu(c, gpu));
    sum += slowdown;
    slow += slowdown > 0.05;
  }
  // |z| has mean sqrt(2 / pi) = 0.798 and deviation 0.603; it is above 1 with probability 0.317.
  CHECK(sum / 128 == Approx(0.05 * 0.798).margin(3 * 0.05 * 0.603 / std::sqrt(128.0)));
  CHECK(slow == Approx(0.317 * 128).margin(3 * std::sqrt(128 * 0.317 * 0.683)));
  c.conditions = {{.node = 0, .gpu = 1, .speed = 0.5}};
  CHECK(speed_of_gpu(c, 1) == Approx(0.5 * speed_of_gpu(large, 1)));
}

TEST_CASE("topology: a dragonfly has its degrees and diameter and cables between all groups") {
  for (const int a : {1, 2, 4}) {
    for (const int h : {1, 2}) {
      for (int g = 2; g <= a * h + 1; ++g) {
        const int per_router = 2;
        Cluster c = test_cluster(a * g * per_router, 4, 1, FabricKind::dragonfly, per_router);
        c.fabric.routers_per_group = a;
        c.fabric.groups = g;
        c.fabric.global_links = h;
        INFO("a " << a << " h " << h << " g " << g);
        REQUIRE(problems(c).empty());
        const Graph graph = build_graph(c);
        CHECK(count(graph, VertexKind::leaf) == a * g);
        const int copies = a * h / (g - 1);
        const auto first = boost::num_vertices(graph) - static_cast<std::size_t>(a * g);
        std::vector<std::vector<int>> between(static_cast<std::size_t>(g),
                                              std::vector<int>(static_cast<std::size_t>(g), 0));
        for (std::size_t v = first; v < boost::num_vertices(graph); ++v) {
          CHECK(network_degree(graph, v) <= a - 1 + h);
          for (auto [edge, end] = boost::out_edges(v, graph); edge != end; ++edge) {
            const std::size_t to = boost::target(*edge, graph);
            if (to < first) continue;
            ++between[(v - first) / static_cast<std::size_t>(a)]
                     [(to - first) / static_cast<std::size_t>(a)];
          }
        }
        for (int i = 0; i < g; ++i) {
          for (int j = 0; j < g; ++j) {
            CHECK(between[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] ==
                  (i == j ? a * (a - 1) : copies));
          }
        }
        // NIC, router, (router,) (router,) NIC: at most one cable between groups.
        CHECK(diameter(graph) <= 5);
        if (a * h == g - 1 && a > 1) CHECK(diameter(graph) == 5);
      }
    }
  }
}

// Half of the cables, because a detour takes two of them; for any traffic.
TEST_CASE("topology: detours of a dragonfly share the cables of routers and of groups") {
  for (const int a : {1, 2, 4})
    for (const int g : {1, 2, 3}) {
      const int h = 2;
      Cluster c = test_cluster(a * g * 2, 4, 1, FabricKind::dragonfly, 2);
      c.fabric.routers_per_group = a;
      c.fabric.groups = g;
      c.fabric.global_links = h;
      c.fabric.adaptive = true;
      INFO("a " << a << " g " << g);
      REQUIRE(problems(c).empty());
      const Graph graph = build_graph(c);
      const bool joined = a * g > 1;
      CHECK(count(graph, VertexKind::spine) == (joined ? g : 0));
      CHECK(count(graph, VertexKind::core) == (g > 1 ? 1 : 0));
      const double cable = static_cast<double>(c.fabric.cable.bytes_per_second);
      for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
        const VertexKind from = graph[boost::source(*edge, graph)].kind;
        const VertexKind to = graph[boost::target(*edge, graph)].kind;
        const auto between = [&](VertexKind x, VertexKind y) {
          return (from == x && to == y) || (from == y && to == x);
        };
        const double rate = static_cast<double>(graph[*edge].capacity.bytes_per_second);
        if (between(VertexKind::leaf, VertexKind::spine))
          CHECK(rate == (a > 1 ? 0.5 * cable * (a - 1) : 0.5 * cable * h));
        if (between(VertexKind::spine, VertexKind::core)) CHECK(rate == 0.5 * cable * a * h);
      }
      CHECK(diameter(graph) <= 6);
    }
}

TEST_CASE("topology: a torus and a mesh have their degrees and diameters and bisections") {
  for (const bool open : {false, true}) {
    for (const std::vector<int>& extents : std::vector<std::vector<int>>{
             {2}, {5}, {6}, {2, 2}, {3, 3}, {4, 3}, {4, 2, 2}, {3, 3, 3}, {1, 4}}) {
      const int nodes = std::accumulate(extents.begin(), extents.end(), 1, std::multiplies<>());
      Cluster c = test_cluster(nodes, 2, 2, FabricKind::torus);
      c.node.nic = {4'000'000'000'000};  // so that the cables are the limit
      c.fabric.dimensions = extents;
      c.fabric.open = open;
      REQUIRE(problems(c).empty());
      const Graph graph = build_graph(c);
      int longest = 0, edges = 0;
      for (const int d : extents) {
        longest += open ? d - 1 : d / 2;
        edges += nodes / d * (d == 1 ? 0 : (open || d == 2) ? d - 1 : d);
      }
      CHECK(diameter(graph) == 2 + longest);
      int degrees = 0;
      for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
        if (graph[v].kind == VertexKind::leaf) degrees += network_degree(graph, v);
      }
      CHECK(degrees == 2 * edges);
      // Nodes are numbered with the last dimension slowest, so halves of it are separated.
      const int last = extents.back();
      if (last % 2 != 0) continue;
      const int cuts = nodes / last * (open || last == 2 ? 1 : 2);
      INFO(last << " of " << nodes << (open ? " open" : ""));
      CHECK(bisection(graph, nodes / 2) == Approx(cuts * 40e9).epsilon(1e-9));
    }
  }
}

TEST_CASE("topology: routes on a torus go along one dimension after the other") {
  Cluster c = test_cluster(16, 1, 1, FabricKind::torus);
  c.fabric.dimensions = {4, 4};
  const Graph graph = build_graph(c);
  const Routes routes(c);
  std::vector<std::size_t> end_of(static_cast<std::size_t>(routes.link_count()));
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    end_of[static_cast<std::size_t>(graph[*edge].id)] = boost::target(*edge, graph);
  }
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      if (a == b) continue;
      Path path;
      routes.between_nics(a, b, path);
      bool turned = false;
      int at = a;
      for (std::size_t i = 1; i + 1 < path.links.size(); ++i) {
        const int next = graph[end_of[static_cast<std::size_t>(path.links[i])]].index;
        const bool second = next / 4 != at / 4;
        CHECK((second || !turned));
        turned = turned || second;
        at = next;
      }
      CHECK(at == b);
    }
  }
}

TEST_CASE("topology: bridges join pairs and a cube mesh has six links at each GPU") {
  std::vector<int> links(8, 0);
  for (const NvlinkPair& pair : cube_mesh_pairs()) {
    links[static_cast<std::size_t>(pair.a)] += pair.links;
    links[static_cast<std::size_t>(pair.b)] += pair.links;
  }
  CHECK(links == std::vector<int>(8, 6));
  Cluster c = test_cluster(1, 8, 8, FabricKind::single_switch, 1, 1, GpuInterconnect::direct);
  c.node.pairs = bridge_pairs(8, 12);
  REQUIRE(c.node.pairs.size() == 4);
  CHECK(nvlinked(c.node, 2, 3));
  CHECK(nvlinked(c.node, 3, 2));
  CHECK_FALSE(nvlinked(c.node, 1, 2));
  const Routes routes(c);
  Path near, far;
  routes.between_gpus(2, 3, near);
  routes.between_gpus(1, 2, far);
  REQUIRE(near.links.size() == 1);
  CHECK(routes.link(near.links[0]).capacity.bytes_per_second == 240'000'000'000);
  for (const int link : far.links) CHECK(routes.link(link).kind == LinkKind::pcie);
}

TEST_CASE("topology: a NIC on the far socket is reached over the sockets' link") {
  Cluster c = test_cluster(2, 4, 2, FabricKind::single_switch, 2, 1, GpuInterconnect::pcie);
  c.node.sockets = 2;
  c.node.socket_link = {10'000'000'000};
  const auto crossings = [&](int gpu, int nic) {
    const Routes routes(c);
    Path path;
    routes.gpu_to_nic(gpu, nic, path);
    int slow = 0;
    for (const int link : path.links) {
      slow += routes.link(link).capacity.bytes_per_second == 10'000'000'000;
    }
    return slow;
  };
  // GPUs 0 1 | 2 3, NICs 0 | 1: each GPU's own NIC is on its socket.
  CHECK(crossings(0, 0) == 0);
  CHECK(crossings(3, 1) == 0);
  CHECK(crossings(0, 1) == 1);
  c.node.socket_of_nic = {0, 0};  // both NICs on the first socket
  REQUIRE(problems(c).empty());
  CHECK(crossings(1, 0) == 0);
  CHECK(crossings(3, 1) == 1);
}

TEST_CASE("topology: GPUs share a PCIe switch with their NIC, or with those that are as far off") {
  Node node;
  node.gpus = 6;
  node.nics = 3;
  node.sockets = 2;
  node.socket_of_gpu = {0, 0, 0, 1, 1, 1};
  node.socket_of_nic = {0, 0, 1};
  node.nic_of_gpu = {0, 2, 2, 0, 2, 0};
  const NodeLayout layout(node);
  // NIC 1, which no GPU names, is on the switch of the NIC before it. GPUs 1 and 2 name a NIC of
  // the other socket, and so do 3 and 5.
  CHECK(layout.switch_of_nic == std::vector{0, 0, 1});
  CHECK(layout.switch_of_gpu == std::vector{0, 2, 2, 3, 1, 3});
  CHECK(layout.socket_of_switch == std::vector{0, 1, 0, 1});
  CHECK(layout.pcie_switches == 4);
  node.nics = 0;
  node.socket_of_nic.clear();
  CHECK(NodeLayout(node).switch_of_gpu == std::vector{0, 0, 0, 1, 1, 1});  // one switch per socket
}

TEST_CASE("topology: an NVLink domain may span many machines") {
  Cluster c = test_cluster(2, 72, 72, FabricKind::rail_optimised, 2);
  c.node.sockets = 36;
  c.node.nvlinks_per_gpu = 18;
  REQUIRE(problems(c).empty());
  const Graph graph = build_graph(c);
  CHECK(count(graph, VertexKind::nvswitch) == 2);
  CHECK(count(graph, VertexKind::host) == 72);
  const Routes routes(c);
  Path path;
  routes.between_gpus(0, 71, path);
  CHECK(path.links.size() == 2);  // up to the switch and down
}

TEST_CASE("topology: conditions change the links of their part and no others") {
  using namespace literals;
  Cluster c = test_cluster(4, 4, 4, FabricKind::rail_optimised, 2);
  const Graph before = build_graph(c);
  const auto changed = [&](const Condition& condition) {
    c.conditions = {condition};
    REQUIRE(problems(c).empty());
    const Graph after = build_graph(c);
    std::vector<double> ratios;
    auto [edge, end] = boost::edges(before);
    auto other = boost::edges(after).first;
    for (; edge != end; ++edge, ++other) {
      const auto a = before[*edge].capacity.bytes_per_second;
      const auto b = after[*other].capacity.bytes_per_second;
      if (a != b) ratios.push_back(static_cast<double>(b) / static_cast<double>(a));
    }
    return ratios;
  };
  // A port, in both directions; a leaf's trunk; of a node the NVLinks of its four GPUs and its four
  // ports; the NVLinks of one GPU.
  CHECK(changed({.node = 1, .nic = 2, .bandwidth = 0.5}) == std::vector<double>(2, 0.5));
  CHECK(changed({.leaf = 3, .bandwidth = 0.25}) == std::vector<double>(2, 0.25));
  CHECK(changed({.node = 3, .bandwidth = 0.5}) == std::vector<double>(16, 0.5));
  CHECK(changed({.node = 3, .gpu = 1, .bandwidth = 0.5}) == std::vector<double>(2, 0.5));
  CHECK(changed({.node = 3, .gpu = 1, .speed = 0.5}).empty());
  CHECK(speed_of_gpu(c, 13) == 0.5);
  CHECK(speed_of_gpu(c, 12) == 1.0);
}

TEST_CASE("topology: a NIC that has failed is replaced by the next one of its node") {
  Cluster c = test_cluster(2, 4, 4, FabricKind::fat_tree);
  c.conditions = {{.node = 1, .nic = 3, .bandwidth = 0}};
  REQUIRE(problems(c).empty());
  CHECK(nics_of_gpu(c, 3) == std::vector{3});
  CHECK(nics_of_gpu(c, 7) == std::vector{0});
  CHECK(nics_of_gpu(c, 6) == std::vector{2});
  for (int nic = 0; nic < 3; ++nic) c.conditions.push_back({.node = 1, .nic = nic, .bandwidth = 0});
  REQUIRE(problems(c).size() >= 1);
  CHECK(problems(c)[0] == "every NIC of a node has failed: nothing reaches it");
}
