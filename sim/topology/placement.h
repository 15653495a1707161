// placement.h — which ranks form a group: Megatron-LM's rank order and its process groups.
//
// A rank is a mixed-radix number whose digits are its places along tp, cp, ep, dp and pp; the order
// string names the digits from the fastest to the slowest. With "tp-cp-ep-dp-pp", tp 2 dp 2 pp 2:
//
//     rank     0 1 2 3 4 5 6 7          tp groups  {0,1} {2,3} {4,5} {6,7}
//     tp       0 1 0 1 0 1 0 1          dp groups  {0,2} {1,3} {4,6} {5,7}
//     dp       0 0 1 1 0 0 1 1          pp groups  {0,4} {1,5} {2,6} {3,7}
//     pp       0 0 0 0 1 1 1 1
//
// Ranks sit on GPUs in order: rank r on GPU r % gpus of node r / gpus, so the first dimension of
// the order is the one that stays inside a node.
//
// Invariants: the groups of a kind partition the ranks; inside a group the digits that vary ascend,
// the fastest first; groups are ordered by their first rank.
//
// Source: NVIDIA/Megatron-LM core 0.8, megatron/core/parallel_state.py (RankGenerator,
// generate_masked_orthogonal_rank_groups); Narayanan et al., SC 2021 (arXiv:2104.04473) section 3.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/quantity.h"

namespace sim::topology {

enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp };
constexpr int dimension_count = 5;

struct Degrees {
  int tp = 1, cp = 1, ep = 1, dp = 1, pp = 1;

  int of(Dimension d) const { return std::array{tp, cp, ep, dp, pp}[static_cast<std::size_t>(d)]; }
  std::int64_t world() const { return std::int64_t{tp} * cp * ep * dp * pp; }
};

// Digits from the fastest to the slowest; a permutation of all dimensions.
using RankOrder = std::array<Dimension, dimension_count>;
constexpr RankOrder megatron_order = {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp,
                                      Dimension::pp};

// "tp-cp-dp-pp", "tp-pp-dp": dimensions that are not named become the slowest ones; give them
// degree 1. Refused with a message: a name twice, an unknown name, an empty name.
Parsed<RankOrder> parse_rank_order(std::string_view text);

enum class GroupKind : std::uint8_t {
  tp,
  cp,
  dp,     // replicas of the same shard of the same sequence part
  dp_cp,  // who shares gradients and optimizer state: dp x cp
  pp,
  embedding,  // first and last stage of each pipeline (tied embeddings); one rank where pp is 1
  world,
};
constexpr int group_kind_count = 7;
std::string_view name(GroupKind kind);

using RankGroups = std::vector<std::vector<int>>;

// Every group of one kind. REQUIRES: degrees >= 1, world <= 2^24.
RankGroups groups(GroupKind kind, const Degrees& degrees, const RankOrder& order = megatron_order);

// Ranks that differ only along `varies`: the general form, for any set of dimensions.
RankGroups groups_along(std::vector<Dimension> varies, const Degrees& degrees,
                        const RankOrder& order = megatron_order);

// {rank of `from`, rank of `to`} of every pipeline: the pairs that exchange activations.
// REQUIRES: stages in [0, pp).
RankGroups stage_pairs(int from, int to, const Degrees& degrees,
                       const RankOrder& order = megatron_order);

// Place of a rank along one dimension.
int place_of(int rank, Dimension dimension, const Degrees& degrees,
             const RankOrder& order = megatron_order);

}  // namespace sim::topology
