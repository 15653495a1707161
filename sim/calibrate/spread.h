// spread.h — how far predictions of a table lie from what was measured, in percent.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sim::calibrate {

// Where the value of a share stands in a sorted list: the nearest rank, ceil(share x n), from 0.
// REQUIRES: n > 0, 0 < share <= 1.
std::size_t nearest_rank(double share, std::size_t n);

// |predicted - measured| / measured of some lines, percent; the bias keeps its sign.
struct Spread {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, most = 0, bias = 0;
  std::size_t worst = 0;  // line
};

// Of signed errors in percent, each with its line.
Spread spread_of(const std::vector<std::pair<double, std::size_t>>& errors);

}  // namespace sim::calibrate
