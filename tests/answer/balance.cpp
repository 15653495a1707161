// balance.cpp — layers of uneven stages: the dynamic programme against all splits.
#include "sim/answer/balance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "sim/base/random.h"

using namespace sim;
using namespace sim::answer;

namespace {

// The slowest part, and the sum of squares.
std::pair<double, double> score(const PartCosts& costs, const std::vector<int>& split) {
  double slowest = 0, squares = 0;
  std::size_t at = 0;
  for (std::size_t part = 0; part < split.size(); ++part) {
    double time = costs.ends[part];
    const double pace = costs.pace.empty() ? 1 : costs.pace[part];
    for (int i = 0; i < split[part]; ++i) time += pace * costs.layers[at++];
    slowest = std::max(slowest, time);
    squares += time * time;
  }
  return {slowest, squares};
}

// All splits that the bounds allow.
void for_each_split(const PartCosts& costs,
                    const std::function<void(const std::vector<int>&)>& to) {
  std::vector<int> split(costs.ends.size(), 0);
  const std::function<void(std::size_t, int)> place = [&](std::size_t part, int left) {
    if (part + 1 == split.size()) {
      split[part] = left;
      if (left >= costs.least[part] && left <= costs.most[part]) to(split);
      return;
    }
    for (int n = costs.least[part]; n <= std::min(left, costs.most[part]); ++n) {
      split[part] = n;
      place(part + 1, left - n);
    }
  };
  place(0, static_cast<int>(costs.layers.size()));
}

// Whole numbers, so that sums are exact in any order.
PartCosts drawn(Random& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random.next() % static_cast<std::uint64_t>(n));
  };
  PartCosts costs;
  const int layers = 1 + below(9), parts = 1 + below(4);
  for (int i = 0; i < layers; ++i) costs.layers.push_back(1 + below(4));
  for (int i = 0; i < parts; ++i) {
    costs.ends.push_back(below(3) == 0 ? below(7) : 0);
    costs.least.push_back(below(2));
    costs.most.push_back(below(3) == 0 ? 1 + below(4) : layers);
  }
  if (below(2) == 0)
    for (int i = 0; i < parts; ++i) costs.pace.push_back(1 + below(3));
  return costs;
}

}  // namespace

TEST_CASE("answer: no split of layers is better balanced than the one that is found") {
  Random random(1);
  int possible = 0;
  for (int i = 0; i < 2000; ++i) {
    const PartCosts costs = drawn(random);
    std::pair<double, double> best{std::numeric_limits<double>::infinity(), 0};
    for_each_split(
        costs, [&](const std::vector<int>& split) { best = std::min(best, score(costs, split)); });
    const std::vector<int> found = balance(costs);
    CAPTURE(i);
    CHECK(found.empty() == (best.first == std::numeric_limits<double>::infinity()));
    if (found.empty()) continue;
    ++possible;
    CHECK(score(costs, found) == best);
  }
  CHECK(possible > 1000);
}

TEST_CASE("answer: no split of equal layers leaves a stage of several chunks less to do") {
  Random random(2);
  int possible = 0;
  for (int i = 0; i < 2000; ++i) {
    PartCosts costs = drawn(random);
    std::fill(costs.layers.begin(), costs.layers.end(), 2.0);
    costs.pace.clear();
    std::vector<int> stages;
    const std::size_t parts = costs.ends.size();
    const std::size_t count = 1 + random.next() % parts;
    for (std::size_t part = 0; part < parts; ++part)
      stages.push_back(static_cast<int>(part % count));
    const auto busiest = [&](const std::vector<int>& split) {
      std::vector<double> load(count, 0);
      for (std::size_t part = 0; part < parts; ++part)
        load[part % count] += costs.ends[part] + 2.0 * split[part];
      return *std::max_element(load.begin(), load.end());
    };
    double best = std::numeric_limits<double>::infinity();
    for_each_split(costs,
                   [&](const std::vector<int>& split) { best = std::min(best, busiest(split)); });
    const std::vector<int> found = balance_stages(costs, stages);
    CAPTURE(i);
    CHECK(found.empty() == (best == std::numeric_limits<double>::infinity()));
    if (found.empty()) continue;
    ++possible;
    CHECK(busiest(found) == best);
  }
  CHECK(possible > 1000);
}
