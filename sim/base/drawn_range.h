// drawn_range.h — mean and 90 % range of a quantity over draws of chance, such as seeds of flow
// hashes. `whatif --seeds` and `topo time --seeds` call it.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace sim {

struct DrawnRange {
  double mean = 0;
  double low = 0, high = 0;  // the 5 % and the 95 % quantile, by the nearest draw
};

// REQUIRES: at least one draw.
inline DrawnRange drawn_range(std::vector<double> draws) {
  std::ranges::sort(draws);
  const double last = static_cast<double>(draws.size() - 1);
  const auto at = [&](double share) {
    return draws[static_cast<std::size_t>(std::lround(share * last))];
  };
  return {std::accumulate(draws.begin(), draws.end(), 0.0) / (last + 1), at(0.05), at(0.95)};
}

}  // namespace sim
