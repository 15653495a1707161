// tree.h — NCCL's double binary tree: two trees over the same ranks, each with half of the data.
//
//     tree 1, 8 ranks:   0 ── 4 ─┬─ 2 ─┬─ 1      parent of k: clear the lowest set bit and set the
//                                │     └─ 3      next one; if that is no rank, only clear it.
//                                └─ 6 ─┬─ 5      Odd ranks are leaves.
//                                      └─ 7
//
//     tree 2: the same with k -> n - 1 - k for even n, shifted by one rank for odd n.
//
// Invariants: depth <= 1 + log2 n; at most two children. A rank with children in one tree is a leaf
// in the other, if n is even. If n is odd, rank 0 may also have one child in tree 1.
//
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35 (2009); NVIDIA/nccl src/graph/trees.cc.
#pragma once

#include <array>
#include <vector>

namespace sim::collective {

// parent[k] for each rank k; -1 at the root.
using Tree = std::vector<int>;

std::array<Tree, 2> double_binary_tree(int ranks);

}  // namespace sim::collective
