// Folding and drawing: parts that are alike are drawn once, and no other are put together.
#include "sim/topology/fold.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sim/topology/draw.h"
#include "sim/topology/draw_svg.h"
#include "tests/topology/clusters.h"

using namespace sim;
using namespace sim::topology;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

}  // namespace

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
