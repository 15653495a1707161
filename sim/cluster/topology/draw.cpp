#include "sim/cluster/topology/draw.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cluster/topology/fold.h"
#include "sim/cluster/topology/graph.h"

namespace sim::topology {
namespace {

std::string identifier(const Vertex& vertex) {
  std::string text = label(vertex);
  std::ranges::replace(text, ' ', '-');
  return text;
}

Duration latency_of(const Graph& graph, const Graph::edge_descriptor& edge,
                    const WayLatencies& ways) {
  const Link& link = graph[edge];
  const auto of_gpu = [&](std::size_t v) { return graph[v].kind == VertexKind::gpu; };
  const bool whole = of_gpu(boost::source(edge, graph)) && of_gpu(boost::target(edge, graph));
  const Duration way = link.kind == LinkKind::nvlink    ? ways.nvlink
                       : link.kind == LinkKind::pcie    ? ways.pcie
                       : link.kind == LinkKind::network ? ways.network
                                                        : Duration{};
  const auto has_end = [&](VertexKind kind) {
    return graph[boost::source(edge, graph)].kind == kind ||
           graph[boost::target(edge, graph)].kind == kind;
  };
  // Between switches of the fabric, the step neither begins nor ends.
  const bool trunk = link.kind == LinkKind::network && !has_end(VertexKind::nic);
  return (trunk ? Duration{} : Duration{whole ? way.ps : way.ps / 2}) + link.latency;
}

}  // namespace

std::string simgrid_xml(const Cluster& cluster, const WayLatencies& ways) {
  const Graph graph = build_graph(cluster);
  std::string text =
      "<?xml version='1.0'?>\n"
      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n  <zone id=\"cluster\" routing=\"Floyd\">\n";
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    const bool host = graph[v].kind == VertexKind::gpu;
    text += host ? fmt::format("    <host id=\"{}\" speed=\"1Gf\"/>\n", identifier(graph[v]))
                 : fmt::format("    <router id=\"{}\"/>\n", identifier(graph[v]));
  }
  std::string routes;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const Link& link = graph[*edge];
    text += fmt::format("    <link id=\"l{}\" bandwidth=\"{}Bps\" latency=\"{}ns\"/>\n", link.id,
                        link.capacity.bytes_per_second,
                        static_cast<double>(latency_of(graph, *edge, ways).ps) / 1000);
    routes += fmt::format(
        "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"l{}\"/></route>\n",
        identifier(graph[boost::source(*edge, graph)]),
        identifier(graph[boost::target(*edge, graph)]), link.id);
  }
  return text + routes + "  </zone>\n</platform>\n";
}

std::string heat_colour(double busy) {
  const double share = std::clamp(busy, 0.0, 1.0);
  const int red = static_cast<int>(255 * std::min(1.0, 2 * share));
  const int green = static_cast<int>(200 * std::min(1.0, 2 - 2 * share));
  return fmt::format("#{:02x}{:02x}30", red, green);
}

std::string graphviz(const Cluster& cluster, const std::vector<double>& busy, bool alike) {
  const Folded drawn = fold(build_graph(cluster), busy, alike);
  const auto times = [](std::size_t count) { return count > 1 ? fmt::format(" x {}", count) : ""; };
  std::string text = "graph cluster {\n  rankdir=TB; node [shape=box];\n";
  for (std::size_t v = 0; v < drawn.vertices.size(); ++v) {
    const FoldedVertex& vertex = drawn.vertices[v];
    text += fmt::format("  v{} [label=\"{}{}\"];\n", v, label(vertex.vertex), times(vertex.count));
  }
  for (const FoldedCable& cable : drawn.cables) {
    text += fmt::format("  v{} -- v{} [label=\"{:.1f} GB/s{}{}\"", cable.a, cable.b,
                        gb_per_second(cable.capacity), times(cable.count),
                        busy.empty() ? "" : fmt::format(", {:.1f} %", 100 * cable.busy));
    if (!busy.empty()) text += fmt::format(" color=\"{}\" penwidth=2", heat_colour(cable.busy));
    text += "];\n";
  }
  return text + "}\n";
}

}  // namespace sim::topology
