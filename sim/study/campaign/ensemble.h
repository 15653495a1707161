// ensemble.h — runs a campaign under many seeds: means, their standard errors, and quantiles.
//
// Invariant: the outcomes, in order of seeds, do not depend on the number of threads.
#pragma once

#include <functional>
#include <vector>

#include "sim/study/campaign/job.h"

namespace sim::campaign {

struct Statistic {
  double mean = 0, standard_error = 0;
  double low = 0, middle = 0, high = 0;  // 5th, 50th and 95th percentile
};

Statistic statistic(std::vector<double> values);

// Outcomes of seeds first, first + 1, ... Any thread calls `go_on` between seeds; if it returns
// false, the result is empty. REQUIRES: seeds >= 1, threads >= 1.
std::vector<Outcome> simulate_all(const Spec& spec, std::uint64_t first, int seeds, int threads,
                                  const std::function<bool()>& go_on = {});

// Goodput: the share of wall time spent on steps that were not lost.
double goodput(const Outcome& outcome);
// Tokens that were not lost, relative to the undisturbed job in the same time.
double effective(const Outcome& outcome);

// The save interval with the highest mean effective time under the same seeds. Intervals around
// `near` are simulated and fitted by the form of the exact formula, a/tau + b + c tau + d tau^2,
// which removes noise. The intervals are those of the last tier of checkpoints.
struct Optimum {
  double interval = 0;  // seconds
  struct Point {
    double interval = 0, goodput = 0, standard_error = 0;
  };
  std::vector<Point> points;  // simulated intervals in ascending order
};
Optimum simulated_optimum(Spec spec, double near, double least, std::uint64_t first, int seeds,
                          int threads, const std::function<bool()>& go_on = {});

}  // namespace sim::campaign
