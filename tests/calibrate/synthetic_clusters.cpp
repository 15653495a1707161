// synthetic_clusters.cpp — clusters whose factors are drawn from their priors, and runs on them
// that the replay makes, with noise. The fit must find the factors as surely as it says.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

#include "sim/calibrate/runs/run_fit.h"
#include "sim/calibrate/validate.h"
#include "sim/input/text/locate.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

constexpr const char *of_gpu = "h100-96", *of_fabric = "h100-80";

std::vector<input::RunsRow> ten_runs() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto table =
      input::load_runs(REHEARSE_SOURCE_DIR "/calibration/measured/training_runs.csv");
  REQUIRE(table);
  std::vector<input::RunsRow> rows;
  for (const input::RunsRow& row : table->rows)
    if (row.text("framework") == "torchtitan" && row.text("gpu").starts_with("H100-SXM-96GB") &&
        rows.size() < 10)
      rows.push_back(row);
  REQUIRE(rows.size() == 10);
  return rows;
}

void measure(std::vector<input::RunsRow>& rows, const input::ProfileDraft& machine, double noise,
             std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise);
  answer::Sites sites;
  sites.use(profile_file(machine, of_gpu));
  for (input::RunsRow& row : rows) {
    const Prediction made =
        predict(row, sites, {.machine = nullptr, .memory = engine::MemoryDetail::none});
    REQUIRE(made.iter_time_s);
    row.cells["tflops_gpu"] = "";
    row.cells["iter_time_s"] = std::to_string(*made.iter_time_s * std::exp(normal(random)));
  }
}

}  // namespace

TEST_CASE("calibrate: of factors of drawn clusters nine in ten are within their 90 % interval") {
  constexpr int clusters = 6;
  constexpr double noise = 0.02, of_90_percent = 1.645;
  const std::vector<input::RunsRow> rows = ten_runs();
  const auto base = whole_profile(*input::locate(input::Kind::profile, of_gpu),
                                  *input::locate(input::Kind::profile, of_fabric));
  REQUIRE(base);
  const std::vector<Factor> factors = factors_of(*find_factors(), *base);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  double inside = 0, all = 0, before = 0, unseen = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    std::vector<double> truth;
    for (const Factor& factor : factors)  // half: fields have bounds, which rates reach
      truth.push_back(std::abs(normal(random)) * factor.prior / 2);
    std::vector<input::RunsRow> measured = rows;
    measure(measured, scaled(*base, factors, truth), noise, random);
    const auto fit = fit_runs({measured, {}, *base, of_gpu, nullptr, 1}, *find_factors());
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
