// row_files.cpp — the plan file of a row, loaded as any file, is the row's plan on its cluster.
// Nothing in the program asks which source or row a measurement belongs to.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "sim/answer/evaluate.h"
#include "sim/answer/pass_times.h"
#include "sim/calibrate/tables/memory_rows.h"
#include "sim/calibrate/validate.h"
#include "sim/input/plan/plan.h"
#include "sim/output/json.h"
#include "tests/input/support.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

constexpr const char* tables[] = {"training_runs",     "training_runs_2", "vtrain_runs",
                                  "megatron_ci_large", "memory",          "paper_grid",
                                  "paper_points"};

std::vector<input::RunsRow> rows_of(const std::string& name) {
  const auto table =
      input::load_runs(std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + name + ".csv");
  REQUIRE(table);
  std::vector<input::RunsRow> rows = table->rows;
  for (input::RunsRow& row : rows) row.cells = run_row(row.cells);
  return rows;
}

}  // namespace

TEST_CASE("calibrate: the plan file of a row is the row's plan on the row's cluster") {
  const support::Scratch scratch;
  std::size_t compared = 0, drawn = 0;
  // A seventh of 2653 rows, or with REHEARSE_EVERY_ROW all of them.
  const std::size_t step = std::getenv("REHEARSE_EVERY_ROW") != nullptr ? 1 : 7;
  for (const char* name : tables) {
    for (const input::RunsRow& row : rows_of(name)) {
      if (++drawn % step != 0) continue;
      const RowPlan mapped = plan_of(row.cells);
      if (!mapped.unsupported.empty() || !program::problems(mapped.plan).empty()) continue;
      INFO(name << " " << row.text("row_id"));
      const auto file = input::load_plan(scratch.write("row.textproto", mapped.file));
      for (const Diagnostic& problem : file ? Diagnostics{} : file.errors())
        INFO(problem.where << ": " << problem.message);
      REQUIRE(file);
      CHECK(output::to_json(*file->plan) == output::to_json(mapped.plan));
      CHECK(file->machine.cluster == mapped.machine.cluster);
      CHECK(file->machine.gpu == mapped.machine.gpu);
      ++compared;
    }
  }
  CHECK(compared > 300);
}

namespace {

// Peaks of the rank with the largest, as a prediction without a stated rank has them.
std::pair<double, double> largest_peaks(const engine::RunReport& run) {
  Bytes allocated{}, reserved{};
  for (const engine::ClassReport& who : run.classes) {
    allocated = std::max(allocated, who.peak_allocated);
    reserved = std::max(reserved, who.peak_reserved);
  }
  return {gib(allocated), gib(reserved)};
}

// Checks a prediction against the run of the row's file.
void check_run(const input::RunsRow& row, const Prediction& predicted, const answer::Answer& ran) {
  REQUIRE(predicted.oom);
  REQUIRE(ran.run.fits() == !*predicted.oom);
  // A row of the time inside a step has less than the step.
  if (predicted.iter_time_s && row.text("time_kind") != "train_batch")
    CHECK(answer::step_seconds(ran) == *predicted.iter_time_s);
  const bool one_rank = !row.text("pp_stage").empty() || !row.text("mem_scope").empty();
  if (!predicted.allocated_gib || one_rank) return;
  const auto [allocated, reserved] = largest_peaks(ran.run);
  CHECK(allocated == *predicted.allocated_gib);
  CHECK(reserved == *predicted.reserved_gib);
}

}  // namespace

TEST_CASE("calibrate: a run of a row's plan file gives the row's prediction, to the last bit") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const support::Scratch scratch;
  answer::Sites of_rows, of_files;
  std::size_t compared = 0, drawn = 0;
  // A few rows of each table, or with REHEARSE_EVERY_ROW all of them.
  const std::size_t step = std::getenv("REHEARSE_EVERY_ROW") != nullptr ? 1 : 173;
  for (const char* name : tables) {
    for (const input::RunsRow& row : rows_of(name)) {
      if (drawn++ % step != 0) continue;
      INFO(name << " " << row.text("row_id"));
      const Prediction predicted = predict(row, of_rows);
      if (predicted.status != "predicted") continue;
      const Result<std::string> text = row_file(row.cells, of_rows);
      REQUIRE(text);
      const auto file = input::load_plan(scratch.write("row.textproto", *text));
      REQUIRE(file);
      const auto site = of_files.of(file->machine);
      REQUIRE(site);
      const auto checked = answer::check(file->plan, **site);
      REQUIRE(checked);
      check_run(row, predicted, answer::evaluate(*checked));
      ++compared;
    }
  }
  CHECK(compared > 8);
}

TEST_CASE("calibrate: no source, row or remark decides how a run is simulated") {
  // Reports group errors by these columns, and documents of answers print remarks; nothing else
  // reads them.
  const std::regex words(
      R"re("(source_group|notes|row_id|extra\.[a-z_]+)"|column: "|megatron-ci|mlperf-v|dgxc)re");
  const std::regex reports(
      "calibrate/(accuracy|ranking|validat|predict|runs/|tables/)|runs_csv|schemas/|"
      "output/documents/|"
      "command/(validate|leave_out|calibrate/calibrate_runs|serve/)");
  std::string found;
  const std::filesystem::path root = REHEARSE_SOURCE_DIR;
  for (const char* folder : {"sim", "workloads/frameworks"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || std::regex_search(path, reports)) continue;
      if (path.ends_with(".md")) continue;
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);)
        if (std::regex_search(line, words) && line.find("source:") == std::string::npos &&
            line.find("          \"") != 0 &&
            line.find("plan_text(") == std::string::npos)  // the name of the plan
          found += path.substr(root.string().size() + 1) + ": " + line + "\n";
    }
  }
  CHECK(found.substr(0, 2000) == "");
}
