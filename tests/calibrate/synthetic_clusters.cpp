// synthetic_clusters.cpp — clusters whose factors are drawn from their priors, and runs on them
// that the replay makes, with noise. The fit must find the factors as surely as it says.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/calibrate/made_runs.h"

using namespace sim;
using namespace sim::calibrate;
using namespace made_runs;

TEST_CASE("calibrate: of factors of drawn clusters nine in ten are within their 90 % interval") {
  constexpr int clusters = 6;
  constexpr double noise = 0.02, of_90_percent = 1.645;
  const std::vector<input::RunsRow> rows = runs_of_torchtitan(10);
  const input::ProfileDraft base = base_profile();
  const std::vector<Factor> factors = factors_of(*find_factors(), base);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  double inside = 0, all = 0, before = 0, unseen = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    std::vector<double> truth;
    for (const Factor& factor : factors)  // half: fields have bounds, which rates reach
      truth.push_back(std::abs(normal(random)) * factor.prior / 2);
    std::vector<input::RunsRow> measured = rows;
    std::normal_distribution<double> slowdown(0, noise);
    measure(measured, scaled(base, factors, truth), [&] { return std::exp(slowdown(random)); });
    const auto fit = fit_runs({measured, {}, base, of_gpu, nullptr, 1}, *find_factors());
    REQUIRE(fit);
    for (std::size_t k = 0; k < factors.size(); ++k) {
      const FittedFactor& one = fit->factors[k];
      INFO("cluster " << cluster << ", " << factors[k].name << ": " << one.x << " +- "
                      << one.deviation << ", true " << truth[k]);
      inside += std::abs(one.x - truth[k]) <= of_90_percent * one.deviation;
      ++all;
    }
    before += run_errors(fit->runs, &FittedRun::before).mean;
    unseen += run_errors(fit->runs, &FittedRun::held_out).mean;
  }
  INFO(inside << " of " << all);
  CHECK(inside >= 0.9 * all);
  CHECK(unseen < before / 2);
}
