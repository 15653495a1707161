// run_fit.cpp — a fit to whole runs finds the factors that the runs were made with, improves what
// it is fitted to, and doubts runs that no cluster explains.
#include "sim/calibrate/runs/run_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/calibrate/made_runs.h"

using namespace sim;
using namespace sim::calibrate;
using namespace made_runs;

namespace {

RunsToFit to_fit(const std::vector<input::RunsRow>& rows) {
  return {rows, {}, base_profile(), of_gpu, nullptr, 1};
}

}  // namespace

TEST_CASE("calibrate: runs give back the factors that they were made with, as sure as they say") {
  std::vector<input::RunsRow> rows = runs_of_torchtitan(8);
  const auto factors = find_factors();
  REQUIRE(factors);
  const input::ProfileDraft base = base_profile();
  const std::vector<Factor> all = factors_of(*factors, base);
  std::vector<double> truth(all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k].name == "products") truth[k] = 0.08;
    if (all[k].name == "attention") truth[k] = -0.06;
  }
  measure(rows, scaled(base, all, truth));
  const auto fit = fit_runs(to_fit(rows), *factors);
  REQUIRE(fit);
  CHECK(fit->left_out.empty());
  REQUIRE(fit->factors.size() == all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    INFO(all[k].name);
    CHECK(std::abs(fit->factors[k].x - truth[k]) <= 2 * fit->factors[k].deviation);
    CHECK(fit->factors[k].deviation <= all[k].prior);
  }
  CHECK(run_errors(fit->runs, &FittedRun::before).median > 2);
  CHECK(run_errors(fit->runs, &FittedRun::after).median < 1);
  CHECK(doubts(*fit).empty());
}

TEST_CASE("calibrate: runs that no cluster explains are doubted") {
  std::vector<input::RunsRow> rows = runs_of_torchtitan(8);
  measure(rows, base_profile());
  for (input::RunsRow& row : rows)  // milliseconds in the place of seconds
    row.cells["iter_time_s"] = std::to_string(1000 * std::stod(row.cells["iter_time_s"]));
  const auto fit = fit_runs(to_fit(rows), *find_factors());
  REQUIRE(fit);
  CHECK_FALSE(doubts(*fit).empty());
}

TEST_CASE("calibrate: peaks of memory of the runs are kept beside the fit") {
  std::vector<input::RunsRow> rows = runs_of_torchtitan(3);
  measure(rows, base_profile());
  answer::Sites sites;
  sites.use(profile_file(base_profile(), of_gpu));
  for (input::RunsRow& row : rows) row.cells["mem_alloc_peak_gib"] = "";
  for (const std::size_t i : {0u, 2u}) {
    const Prediction made = predict(rows[i], sites, {});
    REQUIRE(made.reserved_gib);
    rows[i].cells["mem_reserved_peak_gib"] = std::to_string(*made.reserved_gib * 1.1);
  }
  rows[1].cells["mem_reserved_peak_gib"] = "";
  const auto fit = fit_runs(to_fit(rows), *find_factors());
  REQUIRE(fit);
  REQUIRE(fit->reserved.size() == 2);
  for (const double r : fit->reserved) CHECK(r == Approx(std::log(1.1)).margin(1e-4));
  CHECK(fit->allocated.empty());
}
