#include "sim/study/campaign/formula.h"

#include <cmath>

namespace sim::campaign {

double young_interval(const Costs& costs) {
  return std::sqrt(2 * costs.write * costs.mtbf);
}

double daly_interval(const Costs& costs) {
  const double half = costs.write / (2 * costs.mtbf);
  if (half >= 1) return costs.mtbf;
  return young_interval(costs) * (1 + std::sqrt(half) / 3 + half / 9) - costs.write;
}

double best_interval(const Costs& costs) {
  // With x = tau/M: f(x) = ln(1 - x) + x + delta/M falls from delta/M to minus infinity.
  const double delta = costs.write / costs.mtbf;
  double low = 0, high = 1;
  for (int i = 0; i < 200 && high - low > 1e-15; ++i) {
    const double x = 0.5 * (low + high);
    (std::log1p(-x) + x + delta > 0 ? low : high) = x;
  }
  return 0.5 * (low + high) * costs.mtbf;
}

double renewal_goodput(const Costs& costs, double interval) {
  const double mean = costs.mtbf * std::exp(costs.restart / costs.mtbf) *
                      std::expm1((interval + costs.write) / costs.mtbf);
  return interval / mean;
}

}  // namespace sim::campaign
