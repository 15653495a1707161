// leave_out.cpp — a group of runs is predicted by what the other groups say, and a profile that no
// other group measured takes the numbers of the other profiles.
#include "sim/calibrate/runs/leave_out.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "sim/answer/site.h"
#include "sim/input/text/locate.h"
#include "sim/output/document.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

// One factor that kernels decided, so its prior has its centre at the profile's own number.
std::vector<Factor> one_factor() {
  Factor factor;
  factor.name = "memory";
  factor.fields = {{"norm.hbm", false}};
  factor.prior = 0.1;
  return {factor};
}

struct Runs {
  std::vector<Row> rows;
  std::vector<SensitiveRow> given;
  std::vector<std::string> sources;

  // A run that took exp(residual) times as long as predicted.
  void add(const std::string& source, double residual, double sensitivity) {
    const std::string id = "X" + std::to_string(rows.size());
    rows.push_back({{"row_id", id},
                    {"source_group", source},
                    {"iter_time_s", std::to_string(std::exp(residual))},
                    {"oom", "0"}});
    SensitiveRow row;
    row.given.row_id = id;
    row.given.status = "predicted";
    row.given.iter_time_s = 1;
    row.given.oom = false;
    row.profile = "a100-80";
    row.sensitivity = {sensitivity};
    given.push_back(row);
    sources.push_back(source);
  }
};

// A number of a100-80 that the source "decider" decided.
std::vector<FittedNumbers> decided_numbers() {
  return {{"calibration/a100-80.textproto", "", "", 1, {"memory"}, {"decider"}}};
}

double unseen_time(const Runs& runs, const std::vector<std::string>& groups, std::size_t row) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto result = leave_out(runs.rows, runs.given, groups, one_factor(), decided_numbers());
  REQUIRE(result);
  REQUIRE(result->unseen[row].iter_time_s);
  return *result->unseen[row].iter_time_s;
}

}  // namespace

TEST_CASE("calibrate: a source that is left out is predicted from the others, exactly") {
  // Nine runs of one source are exp(0.04) slower, with sensitivity 1; noise 0.05, prior 0.1. They
  // tell A = 9 / 0.0025 = 3600 about their own factor, and w = 1 / (1 / A + 0.01) about the shared
  // one, whose prior has a quarter of that width: its posterior mean is 0.04 w / (w + 16 / 0.01).
  Runs runs;
  for (int i = 0; i < 9; ++i) runs.add("known", 0.04, 1);
  runs.add("new", 0.5, 0.5);
  const double w = 1 / (1 / 3600.0 + 0.01), x = 0.04 * w / (w + 1600);
  CHECK(unseen_time(runs, runs.sources, 9) == Approx(std::exp(0.5 * x)).epsilon(1e-6));
}

TEST_CASE("calibrate: sources that disagree cancel, however many rows they have") {
  Runs runs;
  for (int i = 0; i < 1000; ++i) runs.add("large", 0.04, 1);
  for (int i = 0; i < 1000; ++i) runs.add("opposite", -0.04, 1);
  runs.add("new", 0, 1);
  CHECK(unseen_time(runs, runs.sources, 2000) == Approx(1).epsilon(1e-6));
  // Ten rows tell nearly as much as a thousand.
  Runs fewer;
  for (int i = 0; i < 1000; ++i) fewer.add("large", 0.04, 1);
  for (int i = 0; i < 10; ++i) fewer.add("small", -0.04, 1);
  fewer.add("new", 0, 1);
  const double large = 1 / (1 / 4e5 + 0.01), small = 1 / (1 / 4e3 + 0.01);
  CHECK(unseen_time(fewer, fewer.sources, 1010) ==
        Approx(std::exp(0.04 * (large - small) / (large + small + 1600))).epsilon(1e-6));
}

TEST_CASE("calibrate: with no other group the prior alone predicts") {
  Runs runs;
  for (int i = 0; i < 5; ++i) runs.add("one", 0.3, 1);
  CHECK(unseen_time(runs, std::vector<std::string>(5, "a100-80"), 0) == Approx(1));
}

TEST_CASE("calibrate: a number that the left-out source decided is taken from other profiles") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  std::vector<Factor> factors = one_factor();
  factors[0].fields = {{"host.kernel", true}};
  Runs runs;
  runs.add("decider", 0, 1);
  runs.add("other", 0, 1);
  std::vector<FittedNumbers> fitted = decided_numbers();
  const auto time_of = [&](std::size_t row) {
    const auto result = leave_out(runs.rows, runs.given, runs.sources, factors, fitted);
    REQUIRE(result);
    return std::log(*result->unseen[row].iter_time_s);
  };
  // The mean of the logarithms of the other profiles' launches over that of a100-80.
  const auto level = [](const char* name) {
    const auto draft = input::ProfileDraft::load(*input::locate(input::Kind::profile, name));
    REQUIRE(draft);
    return std::log(draft->get("host.kernel"));
  };
  double sum = 0;
  const std::vector<const char*> others = {"a100-40", "a100-pcie", "b200",    "gb200", "gh200",
                                           "h100-80", "h100-94",   "h100-96", "v100"};
  for (const char* other : others) sum += level(other) - level("a100-80");
  CHECK(time_of(0) < 0.8 * sum / 9);  // a row of the other source pulls it back a little
  CHECK(time_of(1) == Approx(0).margin(1e-12));
  // Without the profile of another GPU, if the same source decided that number too.
  runs = {};
  runs.add("decider", 0, 1);
  CHECK(time_of(0) == Approx(sum / 9));
  fitted.push_back({"calibration/v100.textproto", "", "", 1, {"memory"}, {"*"}});
  CHECK(time_of(0) == Approx((sum - level("v100") + level("a100-80")) / 8));
}

TEST_CASE("calibrate: more runs of a new cluster predict its others better") {
  // All runs of "new" are exp(0.1) slower. Sensitivity 1, noise 0.05, prior 0.1.
  Runs runs;
  for (int i = 0; i < 20; ++i) runs.add("new", 0.1, 1);
  double last = 0.1;
  for (const std::size_t some : {1u, 3u, 5u, 10u}) {
    const auto result =
        predict_within_sources(runs.rows, runs.given, one_factor(), decided_numbers(), some);
    REQUIRE(result);
    REQUIRE(result->before.size() == 20);
    std::size_t predicted = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      if (result->unseen[i].status != "predicted") continue;
      ++predicted;
      const double left = std::abs(std::log(*result->unseen[i].iter_time_s) - 0.1);
      CHECK(left <= last);
      if (some >= 4) CHECK(result->own[i]);
    }
    CHECK(predicted >= 10);
    CHECK(predicted <= 20);
    const auto first = std::ranges::find(result->unseen, "predicted", &Prediction::status);
    last = std::abs(std::log(*first->iter_time_s) - 0.1);
  }
  CHECK(last < 0.01);
}

TEST_CASE("calibrate: halves of a source have four runs or are not compared") {
  for (const int count : {7, 8}) {
    Runs runs;
    for (int i = 0; i < count; ++i) runs.add("new", 0.1, 1);
    const auto result =
        predict_within_sources(runs.rows, runs.given, one_factor(), decided_numbers(), 0);
    REQUIRE(result);
    for (const Prediction& one : result->unseen)
      CHECK(one.status == (count < 8 ? "unsupported" : "predicted"));
  }
}

TEST_CASE("calibrate: derivatives of a replay predict a moved profile") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto table = input::load_runs(REHEARSE_SOURCE_DIR "/calibration/measured/paper_grid.csv");
  const auto factors = find_factors();
  REQUIRE(table);
  REQUIRE(factors);
  const auto row = std::ranges::find_if(
      table->rows, [](const input::RunsRow& one) { return one.text("row_id") == "T01482"; });
  REQUIRE(row != table->rows.end());
  Sensitivities sensitivities(*factors);
  const SensitiveRow found = sensitivities.of(*row);
  REQUIRE(found.profile == "h100-94");
  // Products and the rest take all of the time between them, so no derivative is above 1 or
  // (beyond rounding and queues) below 0, and products take at least a third.
  for (const double one : found.sensitivity) {
    CHECK(one < 1);
    CHECK(one > -0.05);
  }
  CHECK(found.sensitivity[0] > 0.33);
  CHECK(to_json(sensitive_row(to_json(found))) == to_json(found));
}

TEST_CASE("calibrate: products of a board with a power limit begin at their share of the watts") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  std::vector<Factor> factors = one_factor();
  factors[0].fields = {{"gemm.sustained", false}};
  Runs runs;
  runs.add("decider", 0, 1);
  runs.given[0].profile = "h100-96";
  const std::vector<FittedNumbers> fitted = {
      {"calibration/h100-96.textproto", "", "", 1, {"memory"}, {"decider"}}};
  const auto products = [](const char* name) {
    const auto draft = input::ProfileDraft::load(*input::locate(input::Kind::profile, name));
    REQUIRE(draft);
    return draft->device().gemm;
  };
  const device::GemmProfile limited = products("h100-96");
  REQUIRE(limited.power_w == 500);
  REQUIRE(limited.rated_power_w == 700);
  double sum = 0;
  const std::vector<const char*> others = {"a100-40", "a100-pcie", "b200",    "gb200", "gh200",
                                           "h100-80", "h100-94",   "a100-80", "v100"};
  for (const char* other : others) {
    const device::GemmProfile gemm = products(other);
    sum += std::log(limited.sustained / (gemm.sustained * gemm.throttled * 500 / 700));
  }
  const auto result = leave_out(runs.rows, runs.given, runs.sources, factors, fitted);
  REQUIRE(result);
  CHECK(std::log(*result->unseen[0].iter_time_s) == Approx(sum / 9));
}
