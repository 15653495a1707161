#include "sim/calibrate/fit/minimum.h"

#include <nlopt.h>

#include <algorithm>
#include <cmath>

namespace sim::calibrate {
namespace {

constexpr double huber = 1.5;  // multiples of the noise; larger residuals count linearly

double call(unsigned, const double* x, double*, void* objective) {
  return (*static_cast<const std::function<double(const double*)>*>(objective))(x);
}

}  // namespace

double huber_loss(double error, double noise) {
  const double r = std::abs(error) / noise;
  return r <= huber ? r * r / 2 : huber * (r - huber / 2);
}

std::vector<double> minimise(const std::vector<FittedParameter>& bounds,
                             const std::vector<double>& priors, std::vector<double> from,
                             int evaluations,
                             const std::function<double(const double*)>& objective) {
  const std::size_t n = bounds.size();
  std::vector<double> lower, upper, step;
  for (std::size_t i = 0; i < n; ++i) {
    lower.push_back(bounds[i].lower);
    upper.push_back(bounds[i].upper);
    step.push_back(priors[i] / 2);
    from[i] = std::clamp(from[i], lower[i], upper[i]);
  }
  nlopt_opt optimiser = nlopt_create(NLOPT_LN_SBPLX, static_cast<unsigned>(n));
  auto function = objective;
  nlopt_set_min_objective(optimiser, call, &function);
  nlopt_set_lower_bounds(optimiser, lower.data());
  nlopt_set_upper_bounds(optimiser, upper.data());
  nlopt_set_initial_step(optimiser, step.data());
  nlopt_set_ftol_rel(optimiser, 1e-5);
  nlopt_set_maxeval(optimiser, evaluations);
  double best = 0;
  std::vector<double> found = from;
  const nlopt_result result = nlopt_optimize(optimiser, found.data(), &best);
  nlopt_destroy(optimiser);
  return result < 0 && result != NLOPT_ROUNDOFF_LIMITED ? from : found;
}

}  // namespace sim::calibrate
