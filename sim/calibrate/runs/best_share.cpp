#include "sim/calibrate/runs/best_share.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sim::calibrate {

std::size_t folds_of(std::size_t runs) {
  constexpr std::size_t most = 10;
  return std::min(most, runs);
}

double best_share(std::size_t runs,
                  const std::function<std::vector<UnseenRun>(std::size_t fold)>& fold) {
  constexpr std::size_t least = 4;
  constexpr std::array shares = {1.0, 0.75, 0.5, 0.25, 0.0};
  if (runs < least) return 0.5;
  std::array<double, shares.size()> sums{};
  for (std::size_t k = 0; k < folds_of(runs); ++k)
    for (const UnseenRun& run : fold(k))
      for (std::size_t s = 0; s < shares.size(); ++s)
        sums[s] += std::abs(run.residual - shares[s] * run.shift);
  return shares[static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin())];
}

}  // namespace sim::calibrate
