// spread.cpp — the summary of errors of a table.
#include "sim/calibrate/spread.h"

#include <catch2/catch.hpp>

using namespace sim::calibrate;

TEST_CASE("calibrate: a percentile is the nearest rank") {
  // ceil(0.9 n): the 1st of 1, the 9th of 10, the 10th of 11, the 18th of 20.
  CHECK(nearest_rank(0.9, 1) == 0);
  CHECK(nearest_rank(0.9, 2) == 1);
  CHECK(nearest_rank(0.9, 10) == 8);
  CHECK(nearest_rank(0.9, 11) == 9);
  CHECK(nearest_rank(0.9, 20) == 17);
  CHECK(nearest_rank(1, 7) == 6);
  CHECK(nearest_rank(0.01, 7) == 0);
  std::vector<std::pair<double, std::size_t>> errors;
  for (std::size_t i = 1; i <= 11; ++i) errors.emplace_back(-static_cast<double>(i), i);
  CHECK(spread_of(errors).p90 == 10);  // 90 % of eleven lie at or below the tenth
}
