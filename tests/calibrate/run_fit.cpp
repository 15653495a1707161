// run_fit.cpp — a fit to whole runs finds the factors that the runs were made with, improves what
// it is fitted to, and doubts runs that no cluster explains.
#include "sim/calibrate/runs/run_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "sim/answer/site.h"
#include "sim/calibrate/validate.h"
#include "sim/input/text/locate.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::vector<input::RunsRow> runs_of_torchtitan() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto table =
      input::load_runs(REHEARSE_SOURCE_DIR "/calibration/measured/training_runs.csv");
  REQUIRE(table);
  std::vector<input::RunsRow> rows;
  for (const input::RunsRow& row : table->rows)
    if (row.text("framework") == "torchtitan" && row.text("gpu").starts_with("H100-SXM-96GB"))
      rows.push_back(row);
  rows.resize(8);
  return rows;
}

constexpr const char *of_gpu = "h100-96", *of_fabric = "h100-80";

input::ProfileDraft base_profile() {
  const auto whole = whole_profile(*input::locate(input::Kind::profile, of_gpu),
                                   *input::locate(input::Kind::profile, of_fabric));
  REQUIRE(whole);
  return *whole;
}

// The runs as they would be measured on a machine with this profile.
void measure(std::vector<input::RunsRow>& rows, const input::ProfileDraft& machine) {
  answer::Sites sites;
  sites.use(profile_file(machine, of_gpu));
  for (input::RunsRow& row : rows) {
    const Prediction made =
        predict(row, sites, {.machine = nullptr, .memory = engine::MemoryDetail::none});
    REQUIRE(made.iter_time_s);
    row.cells["tflops_gpu"] = "";
    row.cells["iter_time_s"] = std::to_string(*made.iter_time_s);
  }
}

RunsToFit to_fit(const std::vector<input::RunsRow>& rows) {
  return {rows, {}, base_profile(), of_gpu, nullptr, 1};
}

}  // namespace

TEST_CASE("calibrate: runs give back the factors that they were made with, as sure as they say") {
  std::vector<input::RunsRow> rows = runs_of_torchtitan();
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
  std::vector<input::RunsRow> rows = runs_of_torchtitan();
  measure(rows, base_profile());
  for (input::RunsRow& row : rows)  // milliseconds in the place of seconds
    row.cells["iter_time_s"] = std::to_string(1000 * std::stod(row.cells["iter_time_s"]));
  const auto fit = fit_runs(to_fit(rows), *find_factors());
  REQUIRE(fit);
  CHECK_FALSE(doubts(*fit).empty());
}
