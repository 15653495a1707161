#include "sim/topology/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/topology/graph.h"

namespace sim::topology {
namespace {

struct Cable {
  std::size_t a = 0, b = 0;
  Bandwidth capacity{};
  LinkKind kind{};
  double busy = 0;
};

// Each cable once, the busier of its directions.
std::vector<Cable> cables_of(const Graph& graph, const std::vector<double>& busy) {
  std::vector<Cable> all;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const Link& link = graph[*edge];
    const auto id = static_cast<std::size_t>(link.id);
    const double share = id < busy.size() ? busy[id] : 0;
    if (id / 2 >= all.size()) all.resize(id / 2 + 1);
    Cable& cable = all[id / 2];  // connect() adds both directions one after the other
    if (id % 2 == 0) {
      cable.a = boost::source(*edge, graph);
      cable.b = boost::target(*edge, graph);
      cable.capacity = link.capacity;
      cable.kind = link.kind;
    }
    cable.busy = std::max(cable.busy, share);
  }
  return all;
}

std::string identifier(const Vertex& vertex) {
  std::string text = label(vertex);
  std::ranges::replace(text, ' ', '-');
  return text;
}

// Green through yellow to red.
std::string colour(double busy) {
  const double share = std::clamp(busy, 0.0, 1.0);
  const int red = static_cast<int>(255 * std::min(1.0, 2 * share));
  const int green = static_cast<int>(200 * std::min(1.0, 2 - 2 * share));
  return fmt::format("#{:02x}{:02x}30", red, green);
}

// Height in the drawing; -1: inside of a node.
int level(VertexKind kind) {
  switch (kind) {
    case VertexKind::core:
      return 0;
    case VertexKind::spine:
      return 1;
    case VertexKind::leaf:
      return 2;
    case VertexKind::nic:
      return 3;
    default:
      return -1;
  }
}

}  // namespace

std::string simgrid_xml(const Cluster& cluster) {
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
    text +=
        fmt::format("    <link id=\"l{}\" bandwidth=\"{}Bps\" latency=\"{}ns\"/>\n", link.id,
                    link.capacity.bytes_per_second, static_cast<double>(link.latency.ps) / 1000);
    routes += fmt::format(
        "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"l{}\"/></route>\n",
        identifier(graph[boost::source(*edge, graph)]),
        identifier(graph[boost::target(*edge, graph)]), link.id);
  }
  return text + routes + "  </zone>\n</platform>\n";
}

std::string graphviz(const Cluster& cluster, const std::vector<double>& busy) {
  const Graph graph = build_graph(cluster);
  std::string text = "graph cluster {\n  rankdir=TB; node [shape=box];\n";
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    text += fmt::format("  v{} [label=\"{}\"];\n", v, label(graph[v]));
  }
  for (const Cable& cable : cables_of(graph, busy)) {
    text += fmt::format("  v{} -- v{} [label=\"{:.1f} GB/s\"", cable.a, cable.b,
                        static_cast<double>(cable.capacity.bytes_per_second) / 1e9);
    if (!busy.empty()) text += fmt::format(" color=\"{}\" penwidth=2", colour(cable.busy));
    text += "];\n";
  }
  return text + "}\n";
}

std::string svg(const Cluster& cluster, const std::vector<double>& busy) {
  const Graph graph = build_graph(cluster);
  constexpr int step = 26, margin = 40, height = 110;
  const int nics = std::max(1, cluster.node.nics);
  const int node_width = nics * step + 14;
  const int width = std::max(480, 2 * margin + cluster.nodes * node_width);
  std::array<int, 4> count{};
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    if (const int l = level(graph[v].kind); l >= 0) ++count[static_cast<std::size_t>(l)];
  }
  std::map<int, int> row;  // levels that are there, from the top
  for (int l = 0; l < 4; ++l) {
    if (count[static_cast<std::size_t>(l)] > 0) row.emplace(l, static_cast<int>(row.size()));
  }
  std::vector<std::pair<int, int>> at(boost::num_vertices(graph), {-1, -1});
  std::array<int, 4> placed{};
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    const Vertex& vertex = graph[v];
    const int l = level(vertex.kind);
    if (l < 0) continue;
    const auto i = static_cast<std::size_t>(l);
    const int y = margin + 30 + row[l] * height;
    const int x = vertex.kind == VertexKind::nic
                      ? margin + vertex.node * node_width + 7 + vertex.index * step + step / 2
                      : margin + (2 * placed[i] + 1) * (width - 2 * margin) / (2 * count[i]);
    ++placed[i];
    at[v] = {x, y};
  }
  const int bottom = margin + 30 + static_cast<int>(row.size()) * height;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"20\" font-size=\"13\">{} nodes, {}{}</text>\n",
      width, bottom, margin, cluster.nodes, name(cluster.fabric.kind),
      busy.empty() ? "" : "; cables by use over the step, green idle to red full");
  for (const Cable& cable : cables_of(graph, busy)) {
    if (at[cable.a].first < 0 || at[cable.b].first < 0) continue;
    text += fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"><title>{} "
        "- "
        "{}: {:.1f} GB/s{}</title></line>\n",
        at[cable.a].first, at[cable.a].second, at[cable.b].first, at[cable.b].second,
        busy.empty() ? "#888" : colour(cable.busy), label(graph[cable.a]), label(graph[cable.b]),
        static_cast<double>(cable.capacity.bytes_per_second) / 1e9,
        busy.empty() ? "" : fmt::format(", busy {:.1f} %", 100 * cable.busy));
  }
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    if (at[v].first < 0) continue;
    const bool nic = graph[v].kind == VertexKind::nic;
    const int half = nic ? 9 : 24;
    text += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"16\" rx=\"3\" fill=\"{}\" stroke=\"#444\"/>"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        at[v].first - half, at[v].second - 8, 2 * half, nic ? "#eef" : "#ffe", at[v].first,
        at[v].second + 4, nic ? std::to_string(graph[v].index) : label(graph[v]));
  }
  for (int node = 0; node < cluster.nodes; ++node) {
    text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">node {}</text>\n",
                        margin + node * node_width + node_width / 2, bottom - height + 28, node);
  }
  return text + "</svg>\n";
}

}  // namespace sim::topology
