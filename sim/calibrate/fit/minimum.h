// minimum.h — where a function of some parameters is least within their bounds, and how a residual
// counts in such a function.
#pragma once

#include <functional>
#include <vector>

#include "sim/calibrate/fit/fit.h"

namespace sim::calibrate {

// Huber's loss of an error of which `noise` is to be expected: beyond some noises it counts
// linearly, so that single outliers do not decide.
double huber_loss(double error, double noise);

// The best point that NLopt's subplex search finds from `from` on with at most so many evaluations;
// `from` itself, within the bounds, should the search fail. The first steps are half of `priors`.
// REQUIRES: one bound, prior and value per parameter.
std::vector<double> minimise(const std::vector<FittedParameter>& bounds,
                             const std::vector<double>& priors, std::vector<double> from,
                             int evaluations,
                             const std::function<double(const double*)>& objective);

}  // namespace sim::calibrate
