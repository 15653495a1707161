// steadiness.cpp — which step of a replay stands for all later ones.
#include "sim/engine/rank/steadiness.h"

#include <catch2/catch.hpp>

using sim::engine::Steadiness;

TEST_CASE("steadiness: a step with driver calls of more than 0.1 % of it is not steady") {
  Steadiness s({0});
  s.end_step(0, {5'000}, {{400}}, {0});
  s.end_step(1, {1'000'000}, {{500'000}}, {0});
  CHECK_FALSE(s.steady());  // the warm-up is never reported
  // 0.1 % of a step of 1 us are 1,000 ps: 2,000 ps of calls are too many, 500 ps are not.
  s.end_step(2, {1'001'000}, {{502'000}}, {0});
  CHECK_FALSE(s.steady());
  s.end_step(3, {1'000'500}, {{502'500}}, {0});
  CHECK(s.steady());
}

TEST_CASE("steadiness: steps that call the driver in the same way are steady") {
  Steadiness s({0});
  s.end_step(0, {0}, {{0}}, {0});
  s.end_step(1, {100'000}, {{50'000}}, {0});
  s.end_step(2, {100'000}, {{100'000}}, {0});
  CHECK_FALSE(s.steady());  // the step before it was the warm-up
  s.end_step(3, {100'000}, {{150'000}}, {0});
  CHECK(s.steady());
  s.end_step(4, {90'000}, {{190'000}}, {0});
  CHECK_FALSE(s.steady());
}

TEST_CASE("steadiness: delays of stages add up, those of ranks of one stage do not") {
  Steadiness stages({0, 1}), ranks({0, 0});
  for (int step = 0; step <= 2; ++step) {
    stages.end_step(step, {1'000'000}, {{step * 600}, {step * 600}}, {0, 0});
    ranks.end_step(step, {1'000'000}, {{step * 600}, {step * 600}}, {0, 0});
  }
  CHECK_FALSE(stages.steady());  // 1,200 ps of at most 1,000
  CHECK(ranks.steady());         // 600 ps
}

TEST_CASE("steadiness: a cache that grows by the same calls in each step is not steady") {
  Steadiness s({0});
  for (int step = 0; step <= 4; ++step) {
    s.end_step(step, {100'000}, {{step * 50'000}}, {step * 1000});
    CHECK_FALSE(s.steady());
  }
  s.end_step(5, {100'000}, {{250'000}}, {4000});
  CHECK(s.steady());
}
