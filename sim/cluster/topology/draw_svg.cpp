#include "sim/cluster/topology/draw_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "sim/cluster/topology/draw.h"
#include "sim/cluster/topology/fold.h"

namespace sim::topology {
namespace {

constexpr int margin = 30, level_height = 96, gpus_in_row = 12;

struct Point {
  int x = -1, y = -1;
};

std::string speed(Bandwidth rate) {
  return fmt::format("{:g} GB/s", gb_per_second(rate));
}

std::string text(int x, int y, const std::string& what, const std::string& more = "") {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\"{}{}>{}</text>\n", x, y,
                     more.empty() ? "" : " ", more, what);
}

int level(VertexKind kind) {
  switch (kind) {
    case VertexKind::core:
      return 0;
    case VertexKind::spine:
      return 1;
    case VertexKind::leaf:
      return 2;
    default:
      return -1;
  }
}

class Drawing {
 public:
  Drawing(const Cluster& cluster, const std::vector<double>& busy, bool alike)
      : cluster_(cluster), heat_(!busy.empty()), drawn_(fold(build_graph(cluster), busy, alike)) {
    // Counts the places in each drawn node, and notes whether a place represents several parts.
    std::map<std::pair<std::size_t, VertexKind>, int> places;
    slot_.resize(drawn_.vertices.size());
    for (std::size_t v = 0; v < drawn_.vertices.size(); ++v) {
      const FoldedVertex& one = drawn_.vertices[v];
      if (one.vertex.node < 0) continue;
      slot_[v] = places[{one.node, one.vertex.kind}]++;
      if (one.inside > 1) cell_ = 100;
    }
    int gpus = 1, nics = 1;
    for (const auto& [place, count] : places) {
      if (place.second == VertexKind::gpu) gpus = std::max(gpus, count);
      if (place.second == VertexKind::nic) nics = std::max(nics, count);
    }
    // At most twelve in a row; a rack of 72 has six rows.
    per_row_ = gpus <= gpus_in_row ? gpus : gpus_in_row;
    rows_ = (gpus + per_row_ - 1) / per_row_;
    const int across = std::max({per_row_, std::min(nics, 2 * gpus_in_row), 3});
    nics_per_row_ = std::min(nics, across);
    nic_rows_ = (nics + nics_per_row_ - 1) / nics_per_row_;
    node_width_ = across * cell_ + 20;
    place();
  }

  std::string text_of() const {
    return head() + cables() + nodes() + switches() + legend() + "</svg>\n";
  }

 private:
  void place() {
    std::array<std::vector<std::size_t>, 3> levels;
    for (std::size_t v = 0; v < drawn_.vertices.size(); ++v) {
      if (const int l = level(drawn_.vertices[v].vertex.kind); l >= 0)
        levels[static_cast<std::size_t>(l)].push_back(v);
    }
    std::size_t widest = 1;
    for (const auto& one : levels) widest = std::max(widest, one.size());
    width_ = std::max({720, 2 * margin + static_cast<int>(drawn_.nodes.size()) * (node_width_ + 12),
                       2 * margin + static_cast<int>(widest) * 96});
    at_.resize(drawn_.vertices.size());
    int y = 74;
    for (const auto& one : levels) {
      if (one.empty()) continue;
      for (std::size_t i = 0; i < one.size(); ++i) {
        const auto n = static_cast<int>(one.size());
        at_[one[i]] = {margin + (2 * static_cast<int>(i) + 1) * (width_ - 2 * margin) / (2 * n), y};
      }
      y += level_height;
    }
    nodes_top_ = y - 20;
    for (std::size_t v = 0; v < drawn_.vertices.size(); ++v) {
      const FoldedVertex& one = drawn_.vertices[v];
      const int left = node_left(one.node) + 10;
      if (one.vertex.kind == VertexKind::nic) {
        at_[v] = {left + slot_[v] % nics_per_row_ * cell_ + cell_ / 2,
                  nodes_top_ + 36 + slot_[v] / nics_per_row_ * 26};
      } else if (one.vertex.kind == VertexKind::gpu) {
        at_[v] = {left + slot_[v] % per_row_ * cell_ + cell_ / 2,
                  nodes_top_ + 52 + 26 * nic_rows_ + slot_[v] / per_row_ * 34};
      }
    }
    node_height_ = 88 + 26 * nic_rows_ + 34 * rows_;
    height_ = nodes_top_ + node_height_ + 60;
  }

  int node_left(std::size_t node) const {
    const int all = static_cast<int>(drawn_.nodes.size()) * (node_width_ + 12);
    return (width_ - all) / 2 + static_cast<int>(node) * (node_width_ + 12);
  }

  std::string head() const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
               "font-family=\"sans-serif\" font-size=\"10\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width_, height_) +
           fmt::format(
               "<text x=\"{}\" y=\"22\" font-size=\"14\">{} nodes of {} GPUs, {}</text>\n"
               "<text x=\"{}\" y=\"40\" fill=\"#555\">speeds are those of one direction of one "
               "cable{}</text>\n",
               margin, cluster_.nodes, cluster_.node.gpus, name(cluster_.fabric.kind), margin,
               folded() ? "; x N: so many parts that are alike, drawn once" : "");
  }

  bool folded() const {
    return std::ranges::any_of(drawn_.vertices,
                               [](const FoldedVertex& one) { return one.count > 1; });
  }

  std::string colour(const FoldedCable& cable) const {
    return heat_ ? heat_colour(cable.busy) : "#888";
  }

  // The text at a cable: its speed if it is the first of its kind, and its use if requested.
  std::string cables() const {
    std::string lines, names;
    std::set<std::tuple<VertexKind, VertexKind, std::int64_t>> named;
    const bool few = drawn_.cables.size() <= 96;
    for (const FoldedCable& cable : drawn_.cables) {
      const Point a = at_[cable.a], b = at_[cable.b];
      const FoldedVertex &from = drawn_.vertices[cable.a], &to = drawn_.vertices[cable.b];
      const bool inside = from.vertex.node >= 0 && to.vertex.node >= 0;
      if (a.x < 0 || b.x < 0 || inside) continue;
      lines += fmt::format(
          "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" "
          "stroke-width=\"2\"><title>{} "
          "- {}: {}{}{}</title></line>\n",
          a.x, a.y, b.x, b.y, colour(cable), label(from.vertex), label(to.vertex),
          speed(cable.capacity), cable.count > 1 ? fmt::format(" x {}", cable.count) : "",
          heat_ ? fmt::format(", busy {:.1f} %", 100 * cable.busy) : "");
      const bool first =
          named.insert({from.vertex.kind, to.vertex.kind, cable.capacity.bytes_per_second}).second;
      std::string what;
      if (first)
        what = speed(cable.capacity) + (cable.count > 1 ? fmt::format(" x {}", cable.count) : "");
      if (heat_ && (few || first))
        what += fmt::format("{}{:.1f} %", what.empty() ? "" : ", ", 100 * cable.busy);
      // The text is near the lower end, where cables of one switch are apart.
      const Point low = a.y > b.y ? a : b, high = a.y > b.y ? b : a;
      if (!what.empty())
        names += text(low.x + (high.x - low.x) / 4, low.y - (low.y - high.y) / 4, what,
                      "fill=\"#333\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\"");
    }
    return lines + names;
  }

  // The links between the GPUs of a node, described by the cables of its first GPU.
  std::string interconnect() const {
    const Node& node = cluster_.node;
    for (const FoldedCable& cable : drawn_.cables) {
      const VertexKind a = drawn_.vertices[cable.a].vertex.kind;
      const VertexKind b = drawn_.vertices[cable.b].vertex.kind;
      const bool gpu = a == VertexKind::gpu || b == VertexKind::gpu;
      if (!gpu || cable.kind != LinkKind::nvlink) continue;
      const bool all = a == VertexKind::nvswitch || b == VertexKind::nvswitch;
      return all ? "NVSwitch: " + speed(cable.capacity) + " of each GPU"
                 : "NVLink: " + speed(cable.capacity) + " between two GPUs";
    }
    return "PCIe: " + speed(node.pcie) + " of each GPU, no NVLink";
  }

  // The busy share of the busiest NVLink of a part; negative: it has none.
  double link_use(std::size_t v) const {
    double most = -1;
    for (const FoldedCable& cable : drawn_.cables) {
      if (cable.kind == LinkKind::nvlink && (cable.a == v || cable.b == v))
        most = std::max(most, cable.busy);
    }
    return most;
  }

  std::string nodes() const {
    std::string out;
    const std::string bar = interconnect();
    for (std::size_t n = 0; n < drawn_.nodes.size(); ++n) {
      const int left = node_left(n), middle = left + node_width_ / 2;
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"#fafafa\" "
          "stroke=\"#999\"/>\n",
          left, nodes_top_, node_width_, node_height_);
      out += text(
          middle, nodes_top_ + 15,
          fmt::format(
              "node {}{}", drawn_.nodes[n].first,
              drawn_.nodes[n].count > 1 ? fmt::format(" ... x {}", drawn_.nodes[n].count) : ""),
          "font-weight=\"bold\"");
      const int y = nodes_top_ + node_height_ - 28;
      out += fmt::format(
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\" rx=\"3\" fill=\"#e6f2e6\" "
                 "stroke=\"#484\"/>\n",
                 left + 10, y, node_width_ - 20) +
             text(middle, y + 13, bar);
    }
    for (std::size_t v = 0; v < drawn_.vertices.size(); ++v) {
      const Vertex& vertex = drawn_.vertices[v].vertex;
      const bool gpu = vertex.kind == VertexKind::gpu;
      if (!gpu && vertex.kind != VertexKind::nic) continue;
      const double use = heat_ && gpu ? link_use(v) : -1;
      const std::size_t alike = drawn_.vertices[v].inside;
      const std::string inside = alike > 1 ? fmt::format(" ... x {}", alike) : "";
      out += fmt::format(
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" "
                 "stroke=\"{}\" stroke-width=\"{}\"><title>{}{}</title></rect>\n",
                 at_[v].x - cell_ / 2 + 3, at_[v].y - 9, cell_ - 6, gpu ? 28 : 18,
                 gpu ? "#e8ecff" : "#fff4dd", use >= 0 ? heat_colour(use) : "#555",
                 use >= 0 ? 2.5 : 1.0, label(vertex),
                 use >= 0 ? fmt::format(": NVLink busy {:.1f} %", 100 * use) : "") +
             text(at_[v].x, at_[v].y + 4,
                  fmt::format("{} {}{}", gpu ? "GPU" : "NIC", vertex.index, inside));
      if (use >= 0) out += text(at_[v].x, at_[v].y + 15, fmt::format("{:.1f} %", 100 * use));
    }
    return out;
  }

  std::string switches() const {
    std::string out;
    for (std::size_t v = 0; v < drawn_.vertices.size(); ++v) {
      const FoldedVertex& one = drawn_.vertices[v];
      if (level(one.vertex.kind) < 0) continue;
      const std::string what =
          label(one.vertex) + (one.count > 1 ? fmt::format(" ... x {}", one.count) : "");
      const int half = std::max(26, static_cast<int>(what.size()) * 3 + 6);
      out += fmt::format(
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"20\" rx=\"3\" fill=\"#ffe\" "
                 "stroke=\"#444\"/>\n",
                 at_[v].x - half, at_[v].y - 10, 2 * half) +
             text(at_[v].x, at_[v].y + 4, what);
    }
    return out;
  }

  std::string legend() const {
    if (!heat_) return "";
    const int y = height_ - 40, x = margin;
    std::string out;
    for (int i = 0; i < 20; ++i) {
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                         x + 10 * i, y, heat_colour((i + 0.5) / 20));
    }
    for (const int percent : {0, 50, 100})
      out += text(x + 2 * percent, y + 24, fmt::format("{} %", percent));
    return out + fmt::format(
                     "<text x=\"{}\" y=\"{}\">busy over the step, the busier direction; "
                     "frames of GPUs: their NVLink</text>\n",
                     x + 214, y + 9);
  }

  const Cluster& cluster_;
  bool heat_;
  Folded drawn_;
  std::vector<Point> at_;
  std::vector<int> slot_;  // place of a part among its kind in its drawn node
  int cell_ = 46;          // width of a place in a node
  int per_row_ = 1, rows_ = 1, nics_per_row_ = 1, nic_rows_ = 1, node_width_ = 0, node_height_ = 0;
  int width_ = 0, height_ = 0, nodes_top_ = 0;
};

}  // namespace

std::string svg(const Cluster& cluster, const std::vector<double>& busy, bool alike) {
  return Drawing(cluster, busy, alike).text_of();
}

}  // namespace sim::topology
