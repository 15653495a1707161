// fold.h — the parts of a cluster that look alike from everywhere, each once: what drawings of
// large clusters show ("leaf 0 ... x 64").
//
// Two parts are alike when no path from them tells them apart: same kind (and same place in its
// node, unless that is a whole rack), and as many cables of each capacity to parts that are alike
// (colour refinement; Weisfeiler and Leman, 1968). Folding is exact where it says "x 64": any of
// the 64 may stand for the others.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cluster/topology/graph.h"

namespace sim::topology {

struct FoldedVertex {
  Vertex vertex;           // the first of those alike
  std::size_t count = 1;   // how many there are
  std::size_t inside = 1;  // ... in one node
  std::size_t node = 0;    // which drawn node it is in; of switches of the fabric: nothing
};

struct FoldedCable {
  std::size_t a = 0, b = 0;  // folded vertices
  Bandwidth capacity{};
  LinkKind kind{};
  double busy = 0;        // of the busiest direction of the busiest of them
  std::size_t count = 1;  // cables in all
};

struct FoldedNode {
  int first = 0;  // number of the first of those alike
  std::size_t count = 1;
};

struct Folded {
  std::vector<FoldedVertex> vertices;
  std::vector<FoldedCable> cables;
  std::vector<FoldedNode> nodes;
};

// `alike`: parts that are alike become one; else each stays itself. `busy` by the number of links.
Folded fold(const Graph& graph, const std::vector<double>& busy, bool alike);

}  // namespace sim::topology
