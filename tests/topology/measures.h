// measures.h — what a graph is like, measured on the graph itself: counts, hops, bisection.
#pragma once

#ifndef __clang__  // g++ 12 sees an uninitialised Boost optional in the maximum flow below
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <functional>
#include <vector>

#include "sim/topology/graph.h"

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

// The same over cables of the fabric alone; -1: not reached.
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

// Most bytes per second from the NICs of nodes before `split` to those of the others, by Boykov
// and Kolmogorov's maximum flow.
inline double bisection(const Graph& graph, int split) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = Traits::edge_descriptor;
  using Flow = boost::adjacency_list<
      boost::vecS, boost::vecS, boost::directedS,
      boost::property<
          boost::vertex_index_t, long,
          boost::property<boost::vertex_color_t, boost::default_color_type,
                          boost::property<boost::vertex_distance_t, long,
                                          boost::property<boost::vertex_predecessor_t, Edge>>>>,
      boost::property<boost::edge_capacity_t, double,
                      boost::property<boost::edge_residual_capacity_t, double,
                                      boost::property<boost::edge_reverse_t, Edge>>>>;
  const std::size_t n = boost::num_vertices(graph);
  Flow flow(n + 2);
  const auto capacity = boost::get(boost::edge_capacity, flow);
  const auto reverse = boost::get(boost::edge_reverse, flow);
  const auto add = [&](std::size_t a, std::size_t b, double rate) {
    const Edge forward = boost::add_edge(a, b, flow).first;
    const Edge back = boost::add_edge(b, a, flow).first;
    capacity[forward] = rate;
    capacity[back] = 0;
    reverse[forward] = back;
    reverse[back] = forward;
  };
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    if (graph[*edge].kind != LinkKind::network) continue;
    add(boost::source(*edge, graph), boost::target(*edge, graph),
        static_cast<double>(graph[*edge].capacity.bytes_per_second));
  }
  for (const std::size_t nic : nic_vertices(graph)) {
    if (graph[nic].node < split) add(n, nic, 1e18);
    if (graph[nic].node >= split) add(nic, n + 1, 1e18);
  }
  return boost::boykov_kolmogorov_max_flow(flow, n, n + 1);
}

}  // namespace sim::topology
