// ensemble.h — the same campaign under many seeds: means, their errors, and how seeds differ.
//
// Invariant: seed by seed and in order of seeds everything is the same at any number of threads.
#pragma once

#include <functional>
#include <vector>

#include "sim/study/campaign/job.h"

namespace sim::campaign {

struct Statistic {
  double mean = 0, standard_error = 0;
  double low = 0, middle = 0, high = 0;  // the 5th, 50th and 95th of a hundred seeds
};

Statistic statistic(std::vector<double> values);

// Of seeds first, first + 1 ...; `go_on` is asked between seeds, in any thread; false gives up
// and returns nothing. REQUIRES: seeds >= 1, threads >= 1.
std::vector<Outcome> simulate_all(const Spec& spec, std::uint64_t first, int seeds, int threads,
                                  const std::function<bool()>& go_on = {});

// Share of wall time that trained what was kept.
double goodput(const Outcome& outcome);
// Tokens kept over those of the undisturbed job in the same time.
double effective(const Outcome& outcome);

// The interval of the highest mean effective time under the same seeds: simulated around `near`,
// smoothed by the form that the exact formula has (a/tau + b + c tau + d tau^2), so that noise
// between neighbours does not decide. `interval` is that of the last tier.
struct Optimum {
  double interval = 0;  // seconds
  struct Point {
    double interval = 0, goodput = 0, standard_error = 0;
  };
  std::vector<Point> points;  // what was simulated, rising
};
Optimum simulated_optimum(Spec spec, double near, double least, std::uint64_t first, int seeds,
                          int threads, const std::function<bool()>& go_on = {});

}  // namespace sim::campaign
