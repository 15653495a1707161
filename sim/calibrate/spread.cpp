#include "sim/calibrate/spread.h"

#include <algorithm>
#include <cmath>

namespace sim::calibrate {

Spread spread_of(const std::vector<std::pair<double, std::size_t>>& errors) {
  Spread out;
  std::vector<std::pair<double, std::size_t>> found;
  for (const auto& [error, line] : errors) {
    found.emplace_back(std::abs(error), line);
    out.mean += std::abs(error);
    out.bias += error;
  }
  if (found.empty()) return out;
  std::sort(found.begin(), found.end());
  out.rows = found.size();
  const double n = static_cast<double>(out.rows);
  out.mean /= n;
  out.bias /= n;
  out.median = found[out.rows / 2].first;
  out.p90 = found[nearest_rank(0.9, out.rows)].first;
  out.most = found.back().first;
  out.worst = found.back().second;
  return out;
}

std::size_t nearest_rank(double share, std::size_t n) {
  // 0.9 x 10 is a little more than 9 in binary: a rank is not passed for that.
  constexpr double rounding = 1e-9;
  const double rank = std::ceil(share * static_cast<double>(n) - rounding);
  return std::min(static_cast<std::size_t>(std::max(rank, 1.0)), n) - 1;
}

}  // namespace sim::calibrate
