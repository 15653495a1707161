#include "sim/cluster/topology/fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace sim::topology {
namespace {

using Colours = std::vector<std::size_t>;

// Numbers the values in the order of first appearance.
template <class Value>
class Numbers {
 public:
  std::size_t of(const Value& value) {
    return known_.try_emplace(value, known_.size()).first->second;
  }
  std::size_t size() const { return known_.size(); }

 private:
  std::map<Value, std::size_t> known_;
};

// In a node with more GPUs than this (a rack of 72), places are not distinguished. People do not
// know such GPUs by number, and a picture of all of them is unreadable.
constexpr int most_places = 16;

Colours first_colours(const Graph& graph) {
  int last_gpu = 0;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v)
    if (graph[v].kind == VertexKind::gpu) last_gpu = std::max(last_gpu, graph[v].index);
  const bool places = last_gpu < most_places;
  Numbers<std::tuple<VertexKind, int>> numbers;
  Colours colours;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    const Vertex& vertex = graph[v];
    // People know a place in a node by its number; the number of a switch has no meaning.
    colours.push_back(numbers.of({vertex.kind, vertex.node < 0 || !places ? -1 : vertex.index}));
  }
  return colours;
}

// One round: combines a vertex's colour with those of its neighbours.
std::size_t refine(const Graph& graph, Colours& colours) {
  using Neighbour = std::tuple<std::size_t, std::int64_t>;
  Numbers<std::pair<std::size_t, std::vector<Neighbour>>> numbers;
  Colours next;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    std::vector<Neighbour> around;
    for (auto [edge, end] = boost::out_edges(v, graph); edge != end; ++edge) {
      around.emplace_back(colours[boost::target(*edge, graph)],
                          graph[*edge].capacity.bytes_per_second);
    }
    std::ranges::sort(around);
    next.push_back(numbers.of({colours[v], std::move(around)}));
  }
  colours = std::move(next);
  return numbers.size();
}

Colours colours_of(const Graph& graph, bool alike) {
  Colours colours(boost::num_vertices(graph));
  std::iota(colours.begin(), colours.end(), std::size_t{0});
  if (!alike) return colours;
  colours = first_colours(graph);
  for (std::size_t before = 0, now = 1; before != now;) {
    before = now;
    now = refine(graph, colours);
  }
  return colours;
}

}  // namespace

Folded fold(const Graph& graph, const std::vector<double>& busy, bool alike) {
  const Colours colours = colours_of(graph, alike);
  Folded folded;
  std::map<std::size_t, std::size_t> at;  // colour -> folded vertex
  std::map<int, std::size_t> node_at;     // first node of a folded node -> its place
  for (std::size_t v = 0; v < colours.size(); ++v) {
    const auto [there, is_new] = at.try_emplace(colours[v], folded.vertices.size());
    if (!is_new) {
      ++folded.vertices[there->second].count;
      if (graph[v].node >= 0 && graph[v].node == folded.vertices[there->second].vertex.node)
        ++folded.vertices[there->second].inside;
      continue;
    }
    FoldedVertex drawn{graph[v], 1, 1, 0};
    if (graph[v].node >= 0) {
      const auto [node, new_node] = node_at.try_emplace(graph[v].node, folded.nodes.size());
      if (new_node) folded.nodes.push_back({graph[v].node, 1});
      drawn.node = node->second;
    }
    folded.vertices.push_back(drawn);
  }
  for (const FoldedVertex& vertex : folded.vertices) {
    if (vertex.vertex.node >= 0) folded.nodes[vertex.node].count = vertex.count / vertex.inside;
  }
  using Key = std::tuple<std::size_t, std::size_t, std::int64_t>;
  std::map<Key, FoldedCable> cables;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const Link& link = graph[*edge];
    const std::size_t from = at.at(colours[boost::source(*edge, graph)]);
    const std::size_t to = at.at(colours[boost::target(*edge, graph)]);
    const auto id = static_cast<std::size_t>(link.id);
    const auto [a, b] = std::minmax(from, to);
    const auto [there, is_new] = cables.try_emplace(
        {a, b, link.capacity.bytes_per_second}, FoldedCable{a, b, link.capacity, link.kind, 0, 0});
    FoldedCable& cable = there->second;
    // connect() adds both directions one after the other, the first with an even number.
    if (id % 2 == 0) ++cable.count;
    if (id < busy.size()) cable.busy = std::max(cable.busy, busy[id]);
  }
  for (const auto& [key, cable] : cables) folded.cables.push_back(cable);
  return folded;
}

}  // namespace sim::topology
