// fold.h — merges the parts of a cluster that look alike, for drawings of large clusters ("leaf 0
// ... x 64").
//
// Two parts are alike when no path distinguishes them. They have the same kind and the same place
// in their node (except in a whole rack). They have equally many cables of each capacity to alike
// parts (colour refinement; Weisfeiler and Leman, 1968). Folding is exact: with "x 64", any of the
// 64 parts may replace the others.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cluster/topology/graph.h"

namespace sim::topology {

struct FoldedVertex {
  Vertex vertex;           // the first of the alike vertices
  std::size_t count = 1;   // their number
  std::size_t inside = 1;  // ... in one node
  std::size_t node = 0;    // the drawn node that contains it; unused for switches of the fabric
};

struct FoldedCable {
  std::size_t a = 0, b = 0;  // folded vertices
  Bandwidth capacity{};
  LinkKind kind{};
  double busy = 0;        // of the busiest direction of the busiest cable
  std::size_t count = 1;  // number of cables
};

struct FoldedNode {
  int first = 0;  // number of the first of the alike nodes
  std::size_t count = 1;
};

struct Folded {
  std::vector<FoldedVertex> vertices;
  std::vector<FoldedCable> cables;
  std::vector<FoldedNode> nodes;
};

// `alike`: alike parts are merged; otherwise every part stays separate. `busy` is indexed by link.
Folded fold(const Graph& graph, const std::vector<double>& busy, bool alike);

}  // namespace sim::topology
