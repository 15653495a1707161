// minimum.h — bounded minimisation without gradients, and the loss of a residual. The fits of
// kernels and of collectives call it.
#pragma once

#include <functional>
#include <vector>

#include "sim/calibrate/fit/fit.h"

namespace sim::calibrate {

// Huber's loss of an error with expected size `noise`. Large errors count linearly, so single
// outliers do not decide.
double huber_loss(double error, double noise);

// Minimum found by NLopt's subplex search from `from` in at most `evaluations` evaluations. If the
// search fails, returns `from` clamped to the bounds. First steps are half of `priors`. REQUIRES:
// one bound, prior and value per parameter.
std::vector<double> minimise(const std::vector<FittedParameter>& bounds,
                             const std::vector<double>& priors, std::vector<double> from,
                             int evaluations,
                             const std::function<double(const double*)>& objective);

}  // namespace sim::calibrate
