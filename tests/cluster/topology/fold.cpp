// fold.cpp — folding and drawing: alike parts are drawn once, and other parts are not merged.
#include "sim/cluster/topology/fold.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sim/cluster/topology/draw.h"
#include "sim/cluster/topology/draw_svg.h"
#include "tests/cluster/topology/clusters.h"
#include "tests/picture.h"

using namespace sim;
using namespace sim::topology;
using picture::count;

TEST_CASE("topology: a folded cluster has as many parts and cables as the whole, of every fabric") {
  for (const FabricEntry& fabric : fabric_catalog()) {
    INFO(fabric.name);
    const Cluster cluster = test_cluster(16, 8, 8, fabric.kind);
    if (!problems(cluster).empty()) continue;
    const Graph graph = build_graph(cluster);
    const Folded whole = fold(graph, {}, false);
    const Folded folded = fold(graph, {}, true);
    CHECK(whole.vertices.size() == boost::num_vertices(graph));
    std::size_t parts = 0, cables = 0;
    for (const FoldedVertex& one : folded.vertices) parts += one.count;
    for (const FoldedCable& one : folded.cables) cables += one.count;
    CHECK(parts == boost::num_vertices(graph));
    CHECK(2 * cables == boost::num_edges(graph));
    std::size_t nodes = 0;
    for (const FoldedNode& one : folded.nodes) nodes += one.count;
    CHECK(nodes == static_cast<std::size_t>(cluster.nodes));
  }
}

TEST_CASE("topology: the busiest of the cables that are alike gives its number") {
  const Cluster cluster = test_cluster(8, 8, 8, FabricKind::single_switch);
  const Graph graph = build_graph(cluster);
  std::vector<double> busy(boost::num_edges(graph), 0.125);
  busy[busy.size() - 3] = 0.75;
  const Folded folded = fold(graph, busy, true);
  double most = 0;
  for (const FoldedCable& one : folded.cables) most = std::max(most, one.busy);
  CHECK(most == 0.75);
}

TEST_CASE("topology: a drawing names GPUs, NICs, what joins them and the speed of cables") {
  const Cluster cluster = test_cluster(2, 8, 8, FabricKind::rail_optimised);
  const std::string plain = svg(cluster);
  const auto gpus = static_cast<std::size_t>(2 * cluster.node.gpus);
  CHECK(count(plain, ">GPU ") == gpus);
  CHECK(count(plain, ">NIC ") == static_cast<std::size_t>(2 * cluster.node.nics));
  CHECK(count(plain, "GB/s") > 2);
  CHECK(plain.find("busy") == std::string::npos);
  const std::vector<double> busy(boost::num_edges(build_graph(cluster)), 0.25);
  const std::string used = svg(cluster, busy);
  CHECK(used.find("busy over the step") != std::string::npos);
  CHECK(count(used, "25.0 %") > gpus);
}

TEST_CASE("topology: a large fabric is drawn small and says how many") {
  const Cluster cluster = test_cluster(64, 8, 8, FabricKind::rail_optimised);
  const std::string folded = svg(cluster, {}, true);
  CHECK(folded.find("... x 64") != std::string::npos);
  CHECK(folded.size() < 40'000);
  CHECK(graphviz(cluster, {}, true).find(" x 64") != std::string::npos);
  CHECK(graphviz(cluster, {}, true).size() < 20'000);
}

TEST_CASE("topology: a rack of 72 GPUs is legible: places that are alike are one") {
  const Cluster cluster = test_cluster(16, 72, 72, FabricKind::rail_optimised);
  const std::string folded = svg(cluster, {}, true);
  CHECK(folded.find("GPU 0 ... x 72") != std::string::npos);
  CHECK(folded.find("NIC 0 ... x 72") != std::string::npos);
  CHECK(folded.find("node 0 ... x 16") != std::string::npos);
  CHECK(folded.find("leaf 0 ... x ") != std::string::npos);
  CHECK(folded.size() < 6'000);
  CHECK(graphviz(cluster, {}, true).find("gpu 0 x 1152") != std::string::npos);
  // No part is lost.
  std::size_t parts = 0;
  for (const FoldedVertex& one : fold(build_graph(cluster), {}, true).vertices) parts += one.count;
  CHECK(parts == boost::num_vertices(build_graph(cluster)));
}

TEST_CASE("topology: places of a node of sixteen GPUs are told apart, of seventeen they are not") {
  const auto drawn = [](int gpus) {
    const Graph graph = build_graph(test_cluster(2, gpus, gpus, FabricKind::rail_optimised));
    std::size_t places = 0, all = 0;
    for (const FoldedVertex& one : fold(graph, {}, true).vertices) {
      if (one.vertex.kind != VertexKind::gpu) continue;
      ++places;
      all += one.count;
    }
    return std::pair(places, all);
  };
  CHECK(drawn(16) == std::pair<std::size_t, std::size_t>(16, 32));
  CHECK(drawn(17) == std::pair<std::size_t, std::size_t>(1, 34));
}

TEST_CASE("topology: a platform for SimGrid has the latency of each kind of way at its two ends") {
  const Cluster cluster = test_cluster(2, 8, 8, FabricKind::rail_optimised);
  const std::string xml = simgrid_xml(
      cluster,
      {.nvlink = Duration{600'000}, .pcie = Duration{1'000'000}, .network = Duration{2'700'000}});
  const Graph graph = build_graph(cluster);
  std::size_t nvlinks = 0, ends = 0;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const VertexKind a = graph[boost::source(*edge, graph)].kind;
    const VertexKind b = graph[boost::target(*edge, graph)].kind;
    nvlinks += graph[*edge].kind == LinkKind::nvlink;
    ends += graph[*edge].kind == LinkKind::network &&
            (a == VertexKind::nic || b == VertexKind::nic) && graph[*edge].latency.ps == 0;
  }
  CHECK(count(xml, "latency=\"300ns\"") == nvlinks);
  CHECK(count(xml, "latency=\"1350ns\"") >= ends);
  CHECK(count(xml, "latency=\"1350ns\"") > 0);
}

TEST_CASE("topology: drawings are as they were") {
  const Cluster two = test_cluster(2, 4, 2, FabricKind::fat_tree);
  std::vector<double> busy(boost::num_edges(build_graph(two)));
  for (std::size_t i = 0; i < busy.size(); ++i)
    busy[i] = static_cast<double>(i) / static_cast<double>(busy.size());
  picture::same("cluster/topology/pictures/two-nodes.svg", svg(two));
  picture::same("cluster/topology/pictures/two-nodes-busy.svg", svg(two, busy));
  picture::same("cluster/topology/pictures/two-nodes-busy.dot", graphviz(two, busy));
  const Cluster many = test_cluster(64, 8, 8, FabricKind::rail_optimised);
  picture::same("cluster/topology/pictures/rails.svg", svg(many, {}, true));
  picture::same("cluster/topology/pictures/rails.dot", graphviz(many, {}, true));
}
