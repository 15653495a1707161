// measures.h — properties measured on a graph itself: counts, hops.
#pragma once

#ifndef __clang__  // g++ 12 sees an uninitialised Boost optional in walks over edges
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/breadth_first_search.hpp>
#include <functional>
#include <vector>

#include "sim/cluster/topology/graph.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::topology {

inline int count(const Graph& graph, VertexKind kind) {
  int n = 0;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) n += graph[v].kind == kind;
  return n;
}

// Hops from one vertex to all others.
inline std::vector<int> hops_from(const Graph& graph, std::size_t source) {
  std::vector<int> hops(boost::num_vertices(graph), -1);
  hops[source] = 0;
  boost::breadth_first_search(graph, source,
                              boost::visitor(boost::make_bfs_visitor(
                                  boost::record_distances(hops.data(), boost::on_tree_edge()))));
  return hops;
}

// The same over cables of the fabric only; -1: not reached.
inline std::vector<int> fabric_hops(const Graph& graph, std::size_t source) {
  std::vector<int> hops(boost::num_vertices(graph), -1);
  std::vector<std::size_t> queue = {source};
  hops[source] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (auto [edge, end] = boost::out_edges(queue[i], graph); edge != end; ++edge) {
      const std::size_t to = boost::target(*edge, graph);
      if (graph[*edge].kind != LinkKind::network || hops[to] >= 0) continue;
      hops[to] = hops[queue[i]] + 1;
      queue.push_back(to);
    }
  }
  return hops;
}

inline std::vector<std::size_t> nic_vertices(const Graph& graph) {
  std::vector<std::size_t> all;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    if (graph[v].kind == VertexKind::nic) all.push_back(v);
  }
  return all;
}

}  // namespace sim::topology
