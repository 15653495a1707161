#include "sim/cluster/collective/tree.h"

#include <cassert>

namespace sim::collective {
namespace {

int parent_of(int k, int ranks) {
  if (k == 0) return -1;
  const int bit = k & -k;
  const int without = k ^ bit;
  const int up = without | (bit << 1);
  return up < ranks ? up : without;
}

}  // namespace

std::array<Tree, 2> double_binary_tree(int ranks) {
  assert(ranks >= 1);
  const auto n = static_cast<std::size_t>(ranks);
  std::array<Tree, 2> trees{Tree(n), Tree(n)};
  for (int k = 0; k < ranks; ++k) {
    const int up = parent_of(k, ranks);
    trees[0][static_cast<std::size_t>(k)] = up;
    const auto second = [&](int place) {
      return ranks % 2 == 0 ? ranks - 1 - place : (place + 1) % ranks;
    };
    trees[1][static_cast<std::size_t>(second(k))] = up < 0 ? -1 : second(up);
  }
  return trees;
}

}  // namespace sim::collective
