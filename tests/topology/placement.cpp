// Rank order: the groups of every kind, against Megatron-LM's documented example and by rule.
#include "sim/topology/placement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

using namespace sim;
using namespace sim::topology;

namespace {

RankOrder order_of(const char* text) {
  const auto parsed = parse_rank_order(text);
  REQUIRE(std::holds_alternative<RankOrder>(parsed));
  return std::get<RankOrder>(parsed);
}

std::string refusal(const char* text) {
  const auto parsed = parse_rank_order(text);
  REQUIRE(std::holds_alternative<std::string>(parsed));
  return std::get<std::string>(parsed);
}

}  // namespace

TEST_CASE("placement: the example of Megatron-LM's parallel_state with 16 GPUs") {
  // Its docstring: 16 GPUs, tp 2, pp 4 (so dp 2) give these groups.
  const Degrees d{.tp = 2, .dp = 2, .pp = 4};
  CHECK(groups(GroupKind::dp, d) ==
        RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
  CHECK(groups(GroupKind::tp, d) ==
        RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  CHECK(groups(GroupKind::pp, d) ==
        RankGroups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}});
  CHECK(groups(GroupKind::embedding, d) == RankGroups{{0, 12}, {1, 13}, {2, 14}, {3, 15}});
}

TEST_CASE("placement: dp_cp joins the ranks that share gradients") {
  // tp 2 cp 2 dp 2: rank = tp + 2 cp + 4 dp, so gradients of tp 0 live on all even ranks.
  const Degrees d{.tp = 2, .cp = 2, .dp = 2};
  CHECK(groups(GroupKind::dp_cp, d) == RankGroups{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(groups(GroupKind::cp, d) == RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
}

TEST_CASE("placement: another order moves pipeline neighbours next to each other") {
  const Degrees d{.tp = 2, .dp = 2, .pp = 2};
  const RankOrder swapped = order_of("tp-pp-dp");
  CHECK(groups(GroupKind::pp, d, swapped) == RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(groups(GroupKind::dp, d, swapped) == RankGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(stage_pairs(1, 0, d, swapped) == RankGroups{{2, 0}, {3, 1}, {6, 4}, {7, 5}});
}

TEST_CASE("placement: groups of every kind partition the ranks for all small degrees and orders") {
  RankOrder order = megatron_order;
  do {
    for (const Degrees& d :
         {Degrees{.tp = 2, .cp = 3, .ep = 1, .dp = 2, .pp = 2}, Degrees{.tp = 1, .dp = 5},
          Degrees{.tp = 3, .cp = 1, .ep = 2, .dp = 2, .pp = 1}, Degrees{}}) {
      for (int k = 0; k < group_kind_count; ++k) {
        const auto kind = static_cast<GroupKind>(k);
        std::set<int> seen;
        std::size_t size = 0;
        for (const auto& group : groups(kind, d, order)) {
          if (size == 0) size = group.size();
          REQUIRE(group.size() == size);
          for (const int rank : group) {
            REQUIRE(rank >= 0);
            REQUIRE(rank < d.world());
            REQUIRE(seen.insert(rank).second);
          }
        }
        // Only the two ends of a pipeline are in an embedding group.
        const std::int64_t expected =
            kind == GroupKind::embedding && d.pp > 2 ? 2 * d.world() / d.pp : d.world();
        REQUIRE(static_cast<std::int64_t>(seen.size()) == expected);
      }
      for (const auto& group : groups(GroupKind::pp, d, order)) {
        for (std::size_t s = 0; s < group.size(); ++s) {
          REQUIRE(place_of(group[s], Dimension::pp, d, order) == static_cast<int>(s));
          REQUIRE(place_of(group[s], Dimension::tp, d, order) ==
                  place_of(group[0], Dimension::tp, d, order));
        }
      }
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("placement: a bad order is refused with the reason") {
  CHECK(refusal("tp-cp-tp").find("twice") != std::string::npos);
  CHECK(refusal("tp-qp").find("\"qp\" is not a dimension") != std::string::npos);
  CHECK(refusal("tp--pp").find("not a dimension") != std::string::npos);
  CHECK(refusal("").find("not a dimension") != std::string::npos);
  CHECK(order_of("tp-cp-dp-pp")[4] == Dimension::ep);
}
