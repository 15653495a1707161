// next_measurement.h — which measurement would reduce the uncertainty of a fit to runs most.
// fit_runs() calls it once.
//
// With the posterior covariance S of the factors, a further measurement with derivatives c and
// noise s reduces the variance of run i by (J_i S c)^2 / (c S c + s^2) (Bayesian experimental
// design: Chaloner and Verdinelli, Statistical Science 10, 1995, section 2, A-optimality).
// Candidates are the direct measurements of calibration/factors.csv, and runs like the first one
// that was measured with one setting changed: tp, pp, sequence, micro-batch, global batch.
#pragma once

#include <Eigen/Dense>
#include <vector>

#include "sim/calibrate/runs/run_fit.h"

namespace sim::calibrate {

// At most five measurements, the best first. `fit` has factors, runs, noise and profile.
std::vector<NextMeasurement> next_measurements(const RunsToFit& runs, const RunFit& fit,
                                               const Eigen::MatrixXd& posterior);

}  // namespace sim::calibrate
