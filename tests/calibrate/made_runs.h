// made_runs.h — published runs on H100 nodes, and the times that they would have on a machine whose
// profile is known: what `calibrate --runs` must find again.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "sim/answer/site.h"
#include "sim/calibrate/runs/run_fit.h"
#include "sim/calibrate/validate.h"
#include "sim/input/text/locate.h"

namespace made_runs {

using namespace sim;
using namespace sim::calibrate;

constexpr const char *of_gpu = "h100-96", *of_fabric = "h100-80";

// The first runs of torchtitan's published table.
inline std::vector<input::RunsRow> runs_of_torchtitan(std::size_t count) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto table =
      input::load_runs(REHEARSE_SOURCE_DIR "/calibration/measured/training_runs.csv");
  REQUIRE(table);
  std::vector<input::RunsRow> rows;
  for (const input::RunsRow& row : table->rows)
    if (row.text("framework") == "torchtitan" && row.text("gpu").starts_with("H100-SXM-96GB") &&
        rows.size() < count)
      rows.push_back(row);
  REQUIRE(rows.size() == count);
  return rows;
}

inline input::ProfileDraft base_profile() {
  const auto whole = whole_profile(*input::locate(input::Kind::profile, of_gpu),
                                   *input::locate(input::Kind::profile, of_fabric));
  REQUIRE(whole);
  return *whole;
}

// Replaces the times of the runs by those on a machine with this profile, each times a factor of
// noise.
inline void measure(
    std::vector<input::RunsRow>& rows, const input::ProfileDraft& machine,
    const std::function<double()>& noise = [] { return 1.0; }) {
  answer::Sites sites;
  sites.use(profile_file(machine, of_gpu));
  for (input::RunsRow& row : rows) {
    const Prediction made =
        predict(row, sites, {.machine = nullptr, .memory = engine::MemoryDetail::none});
    REQUIRE(made.iter_time_s);
    row.cells["tflops_gpu"] = "";
    row.cells["iter_time_s"] = std::to_string(*made.iter_time_s * noise());
  }
}

}  // namespace made_runs
