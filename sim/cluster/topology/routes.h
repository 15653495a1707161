// routes.h — the links that a message crosses: shortest paths through the cluster's graph, the same
// on every run.
//
// Inside a node a path prefers NVLink: it costs 1, any other link 4. Between nodes a message goes
// from the GPU to a NIC, by the fewest switches to the other NIC, and from there to the GPU. Among
// paths of equal cost, the one whose vertices come first in the graph is taken. With separate
// spines (leaf_spine), a hash of both NICs selects one of the working spines. All nodes of a
// cluster have the same wiring, so paths inside a node are found once. With measured rates, each
// pair of nodes has an extra link in each direction, numbered after those of the graph.
//
// A Routes object must not be used by two threads at the same time, because paths are cached as
// they are found.
#pragma once

#include <utility>
#include <vector>

#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/graph_builder.h"

namespace sim::topology {

// The links of a path in order, and the latency that its longest stretch between two NICs adds to
// NCCL's own.
struct Path {
  std::vector<int> links;
  Duration latency{};
};

class Routes {
 public:
  // REQUIRES: problems(cluster) is empty.
  explicit Routes(const Cluster& cluster);

  // `gpu` is a GPU of the cluster (node x gpus + index), `nic` a NIC (node x nics + index). Each
  // function appends its stretch to a path.
  void between_gpus(int from, int to, Path& path) const;  // REQUIRES: both in one node
  void gpu_to_nic(int gpu, int nic, Path& path) const;    // REQUIRES: both in one node
  void nic_to_gpu(int nic, int gpu, Path& path) const;    // REQUIRES: both in one node
  // REQUIRES: the NICs are in different nodes, and of one rail if rails never meet.
  void between_nics(int from, int to, Path& path) const;
  // The part of that stretch between the NICs' leaves; the latency is that of the whole stretch.
  void between_leaves_of(int from, int to, Path& path) const;
  // The NICs of its node through which a GPU's messages leave.
  const std::vector<int>& nics_of_gpu(int gpu) const {
    return nics_.of_gpu[static_cast<std::size_t>(gpu) % nics_.of_gpu.size()];
  }
  // A NIC's leaf, and the links to it and back.
  struct NicLinks {
    int leaf = -1;  // vertex
    int up = -1, down = -1;
  };
  NicLinks links_of_nic(int nic) const {
    const Hop& up = nics_.up[static_cast<std::size_t>(nic)];
    return {up.to, up.link, nics_.down[static_cast<std::size_t>(nic)]};
  }
  // Calls visit(link) for the links from leaf to leaf, starting with the last one. REQUIRES:
  // !draws_spines().
  template <class Visit>
  void between_leaves(int from, int to, const Visit& visit) const {
    if (from == to) return;
    if (!forest_.empty()) {
      const int top = meeting(from, to);
      for (int v = to; v != top; v = stem(v).parent) visit(stem(v).down);
      visit_ups(from, top, visit);
      return;
    }
    const Tree& tree = fabric_tree(from);
    for (int v = to; v != from; v = tree[static_cast<std::size_t>(v)].to)
      visit(tree[static_cast<std::size_t>(v)].link);
  }
  // Whether the path between two leaves depends on the NICs.
  bool draws_spines() const { return !working_spines_.empty(); }
  bool rails_meet() const { return cluster_.fabric.kind != FabricKind::rail_only; }

  int link_count() const { return static_cast<int>(links_.size()); }
  const Link& link(int id) const { return links_[static_cast<std::size_t>(id)]; }
  // The two vertices of a link.
  Vertex source(int link) const { return vertex(ends_[static_cast<std::size_t>(link)].first); }
  Vertex target(int link) const { return vertex(ends_[static_cast<std::size_t>(link)].second); }
  const Cluster& cluster() const { return cluster_; }

 private:
  struct Hop {
    int to = -1;
    int link = -1;
  };
  // A switch of a tree-shaped fabric, in which paths are unique: its links to and from the parent.
  struct Stem {
    int parent = -1, depth = 0;
    int up = -1, down = -1;
  };
  // The predecessor of every vertex on its cheapest path from one source.
  using Tree = std::vector<Hop>;

  void add_measured();
  void find_forest();
  const Stem& stem(int v) const { return forest_[static_cast<std::size_t>(v)]; }
  int meeting(int a, int b) const;
  template <class Visit>
  void visit_ups(int from, int top, const Visit& visit) const {
    if (from == top) return;
    visit_ups(stem(from).parent, top, visit);
    visit(stem(from).up);
  }
  int measured_link(int from_node, int to_node) const;
  Vertex vertex(int number) const;
  void local(int node, int from, int to, Path& path) const;
  const Tree& fabric_tree(int source) const;
  void over_spine(int from, int to, int from_leaf, int to_leaf, Path& path) const;

  Cluster cluster_;
  NodeLayout layout_;
  std::vector<Link> links_;                // by id
  std::vector<std::pair<int, int>> ends_;  // vertices, by id
  std::vector<Vertex> switches_;
  std::vector<Vertex> node_vertices_;   // of node 0
  std::vector<std::vector<Hop>> next_;  // by vertex of node 0 and switch of the fabric
  // Where the parts of the cluster begin in the numbers of links and vertices.
  struct Numbers {
    int links_per_node = 0;
    int first_switch = 0;    // vertex
    int first_measured = 0;  // link
  };
  Numbers numbers_;
  // By NIC: the hop to its leaf, and the link from the leaf to it.
  struct NicTables {
    std::vector<Hop> up;
    std::vector<int> down;
    std::vector<std::vector<int>> of_gpu;  // of one node's GPUs if all nodes are alike
  };
  NicTables nics_;
  std::vector<int> working_spines_;         // leaf_spine: the spine of each value of the hash
  std::vector<Tree> local_trees_;           // by source vertex in a node
  std::vector<Stem> forest_;                // by switch; empty: paths are not unique
  mutable std::vector<Tree> fabric_trees_;  // by source switch; empty: not computed yet
};

}  // namespace sim::topology
