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
  out.p90 = found[static_cast<std::size_t>(0.9 * (n - 1))].first;
  out.most = found.back().first;
  out.worst = found.back().second;
  return out;
}

}  // namespace sim::calibrate
