#include "sim/cluster/topology/bisection.h"

#ifndef __clang__  // g++ 12 sees an uninitialised Boost optional in the maximum flow below
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "sim/cluster/topology/inspect.h"

namespace sim::topology {
namespace {

// Sources and sinks are the NICs of the two halves; edges carry the network's links.
class Halves {
 public:
  Halves(const Graph& graph, int split) : flow_(boost::num_vertices(graph) + 2) {
    const std::size_t n = boost::num_vertices(graph);
    for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
      if (graph[*edge].kind != LinkKind::network) continue;
      add(boost::source(*edge, graph), boost::target(*edge, graph),
          static_cast<double>(graph[*edge].capacity.bytes_per_second));
    }
    for (std::size_t v = 0; v < n; ++v) {
      if (graph[v].kind != VertexKind::nic) continue;
      if (graph[v].node < split) add(n, v, 1e18);
      if (graph[v].node >= split) add(v, n + 1, 1e18);
    }
    most_ = boost::boykov_kolmogorov_max_flow(flow_, n, n + 1);
  }
  double most() const { return most_; }

 private:
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

  void add(std::size_t a, std::size_t b, double rate) {
    const Edge forward = boost::add_edge(a, b, flow_).first;
    const Edge back = boost::add_edge(b, a, flow_).first;
    boost::put(boost::edge_capacity, flow_, forward, rate);
    boost::put(boost::edge_capacity, flow_, back, 0.0);
    boost::put(boost::edge_reverse, flow_, forward, back);
    boost::put(boost::edge_reverse, flow_, back, forward);
  }

  Flow flow_;
  double most_ = 0;
};

}  // namespace

double bisection(const Graph& graph, int split) {
  return Halves(graph, split).most();
}

double bisection_share(const Cluster& cluster) {
  const int half = cluster.nodes / 2;
  const double sent =
      static_cast<double>(cluster.node.nic.bytes_per_second) * half * cluster.node.nics;
  return bisection(build_graph(cluster), half) / sent;
}

}  // namespace sim::topology
