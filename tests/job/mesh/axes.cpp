// axes.cpp — rank order: groups against Megatron-LM's documented example, and orders as text.
#include <catch2/catch.hpp>

#include "sim/job/mesh/communicators.h"

using namespace sim;
using namespace sim::mesh;

namespace {

Order order_of(const char* text) {
  const auto parsed = parse_order(text);
  REQUIRE(std::holds_alternative<Order>(parsed));
  return std::get<Order>(parsed);
}

std::string refusal(const char* text) {
  const auto parsed = parse_order(text);
  REQUIRE(std::holds_alternative<std::string>(parsed));
  return std::get<std::string>(parsed);
}

}  // namespace

TEST_CASE("mesh: the example of Megatron-LM's parallel_state with 16 GPUs") {
  // The docstring's example: 16 GPUs with tp 2 and pp 4 (so dp 2) give these groups.
  const Degrees d{.tp = 2, .dp = 2, .pp = 4};
  CHECK(groups(Communicator::dp, d) ==
        Groups{{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}});
  CHECK(groups(Communicator::tp, d) ==
        Groups{{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}});
  CHECK(groups(Communicator::pp, d) ==
        Groups{{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}});
  CHECK(groups(Communicator::embedding, d) == Groups{{{0, 12}, {1, 13}, {2, 14}, {3, 15}}});
}

TEST_CASE("mesh: dp_cp joins the ranks that share gradients") {
  // tp 2 cp 2 dp 2: rank = tp + 2 cp + 4 dp, so gradients of tp 0 live on all even ranks.
  const Degrees d{.tp = 2, .cp = 2, .dp = 2};
  CHECK(groups(Communicator::dp_cp, d) == Groups{{{0, 2, 4, 6}, {1, 3, 5, 7}}});
  CHECK(groups(Communicator::cp, d) == Groups{{{0, 2}, {1, 3}, {4, 6}, {5, 7}}});
}

TEST_CASE("mesh: another order moves pipeline neighbours next to each other") {
  const Degrees d{.tp = 2, .dp = 2, .pp = 2};
  const Order swapped = order_of("tp-pp-dp");
  CHECK(groups(Communicator::pp, d, swapped) == Groups{{{0, 2}, {1, 3}, {4, 6}, {5, 7}}});
  CHECK(groups(Communicator::dp, d, swapped) == Groups{{{0, 4}, {1, 5}, {2, 6}, {3, 7}}});
  const Groups pipelines = groups(Communicator::pp, d, swapped);
  CHECK(stage_pairs(1, 0, pipelines) == Groups{{{2, 0}, {3, 1}, {6, 4}, {7, 5}}});
}

TEST_CASE("mesh: a bad order is refused with the reason") {
  CHECK(refusal("tp-cp-tp").find("twice") != std::string::npos);
  CHECK(refusal("tp-qp").find("\"qp\" is not a dimension") != std::string::npos);
  CHECK(refusal("tp--pp").find("not a dimension") != std::string::npos);
  CHECK(refusal("").find("not a dimension") != std::string::npos);
  CHECK(order_of("tp-cp-dp-pp")[4] == Axis::ep);
}
