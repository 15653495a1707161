// tree-all-reduce.cpp — sums go up a tree to its root and come down again. Two trees (tree.h) take
// half of the chunks each, so every rank is a leaf in one of them.
//
//     up    a rank sends to its parent once its children have sent to it
//     down  a rank sends to its children once its parent has sent to it
//
// Each chunk takes n - 1 messages up and n - 1 down, the minimum for an all-reduce. This takes
// about 2 log2 n rounds; a ring takes 2(n - 1).
#include <algorithm>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/collective/tree.h"

namespace sim::collective {
namespace {

// Rounds until a rank's whole subtree has reached it (height), and from the root to it (depth).
struct Levels {
  std::vector<int> height, depth;
};

Levels levels(const Tree& parent) {
  Levels all{std::vector<int>(parent.size(), 0), std::vector<int>(parent.size(), 0)};
  for (std::size_t rank = 0; rank < parent.size(); ++rank) {
    int climbed = 0;
    for (int up = parent[rank]; up >= 0; up = parent[static_cast<std::size_t>(up)]) {
      int& height = all.height[static_cast<std::size_t>(up)];
      height = std::max(height, ++climbed);
    }
    all.depth[rank] = climbed;
  }
  return all;
}

}  // namespace

Rounds tree_all_reduce(int ranks) {
  const std::array<Tree, 2> trees = double_binary_tree(ranks);
  const std::array<Levels, 2> both = {levels(trees[0]), levels(trees[1])};
  // All sums are at the roots after this many rounds.
  const int top = std::max(std::ranges::max(both[0].height), std::ranges::max(both[1].height));
  const int bottom = std::max(std::ranges::max(both[0].depth), std::ranges::max(both[1].depth));

  Rounds rounds(static_cast<std::size_t>(top + bottom));
  const int half = (ranks + 1) / 2;
  for (std::size_t t = 0; t < 2; ++t) {
    const int first = t == 0 ? 0 : half;
    const int chunks = t == 0 ? half : ranks - half;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const int parent = trees[t][r];
      if (parent < 0) continue;
      const auto up = static_cast<std::size_t>(both[t].height[r]);
      const auto down = static_cast<std::size_t>(top + both[t].depth[r] - 1);
      rounds[up].push_back({rank, parent, first, chunks, true});
      rounds[down].push_back({parent, rank, first, chunks, false});
    }
  }
  return rounds;
}

}  // namespace sim::collective
