// best_share.h — how far a fit of factors to runs is trusted. Runs may be wrong in a way that no
// factor explains, so only that share of the factors is taken (0, 1/4, ... 1) that predicts runs
// best that the fit did not see. run_fit.h and leave_out.h call it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace sim::calibrate {

// A run that a fit did not see: its residual ln(measured / predicted) with the base profile, and
// the amount that the fitted factors, taken in full, subtract from it.
struct UnseenRun {
  double residual = 0, shift = 0;
};

// Number of folds of `runs` runs: run i is in fold i % folds.
std::size_t folds_of(std::size_t runs);

// 0.5 if there are fewer than four runs: nothing can be held out. `fold(k)`: the runs of fold k,
// predicted by a fit to the others.
double best_share(std::size_t runs,
                  const std::function<std::vector<UnseenRun>(std::size_t fold)>& fold);

}  // namespace sim::calibrate
