// calibrate_runs.cpp — `rehearse calibrate RUNS.csv`: fits the factors of a cluster to whole runs.
#include "sim/command/calibrate_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "sim/base/text.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/runs/run_fit_document.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/memory_rows.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/input/profile/profile.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"
#include "sim/output/output.h"

namespace sim::command {

namespace {

std::vector<input::RunsRow> load_all(const std::vector<std::string>& paths) {
  std::vector<input::RunsRow> rows;
  for (const std::string& path : paths) {
    input::RunsTable table = need(input::load_runs(path));
    for (input::RunsRow& row : table.rows) {
      row.cells = calibrate::run_row(row.cells);
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) throw Stop{complain({{paths[0], "has no rows: there is nothing to fit"}}), ""};
  return rows;
}

// The machine of the runs: --cluster, or that of the first row which names one.
input::Machine machine_of(const Options& options, const std::vector<input::RunsRow>& rows) {
  if (options.has("cluster")) return need(input::find_cluster(options.text("cluster")));
  std::string problem;
  for (const input::RunsRow& row : rows) {
    const calibrate::ClusterChoice choice = calibrate::cluster_of(row.cells);
    if (choice.machine != nullptr) return *choice.machine;
    if (problem.empty()) problem = choice.problem;
  }
  throw Stop{
      exit_usage,
      fmt::format("no run names a known GPU ({}); name the cluster with --cluster", problem)};
}

// Rows of GPUs with other profiles leave; their number is told.
void keep_profile(const input::Machine& machine, std::vector<input::RunsRow>& rows,
                  const Globals& globals) {
  const std::size_t left = std::erase_if(rows, [&](const input::RunsRow& row) {
    const calibrate::ClusterChoice choice = calibrate::cluster_of(row.cells);
    return choice.machine != nullptr && choice.machine->gpu.profile != machine.gpu.profile;
  });
  if (left > 0 && !globals.quiet)
    note(fmt::format("note: {} of GPUs with another profile than {} left out",
                     counted(static_cast<std::int64_t>(left), "run"), machine.gpu.profile));
}

std::string profile_text(const calibrate::RunFit& fit, const std::string& base,
                         const input::Machine& machine, const Options& options) {
  input::ProfileDraft profile = fit.profile;
  const std::string output = options.text("output");
  profile.name(std::filesystem::path(output).stem().string());
  device::Provenance from;
  from.device = machine.gpu.name;
  from.date = options.text("date", profile.device().provenance.date);
  from.base = base;
  from.command = fmt::format("rehearse calibrate {}", fmt::join(options.words(), " "));
  if (options.has("cluster")) from.command += " --cluster " + options.text("cluster");
  for (const calibrate::FittedRun& run : fit.runs) from.run_residuals.push_back(run.held_out);
  std::vector<std::string> sources = options.words();
  sources.push_back(fmt::format("everything else: profile {}", base));
  profile.provenance(from, sources);
  return profile.text(
      fmt::format("Written by the command in `provenance`: profile {} with the "
                  "factors that whole runs tell.",
                  base));
}

void print_doubts(const std::vector<std::string>& doubts) {
  for (const std::string& doubt : doubts) note("warning: " + doubt);
}

}  // namespace

bool are_run_tables(const std::vector<std::string>& paths) {
  return std::ranges::all_of(paths, [](const std::string& path) {
    const Result<input::Table> table = input::load_table(path);
    return table && table->has("row_id") && table->has("tp") && table->has("pp") &&
           calibrate::measured_table(*table) == nullptr &&
           calibrate::timing_table(*table) == calibrate::TimingTable::none;
  });
}

int run_calibrate_runs(const Options& options, const Globals& globals) {
  std::vector<input::RunsRow> rows = load_all(options.words());
  const input::Machine machine = machine_of(options, rows);
  if (!options.has("cluster")) keep_profile(machine, rows, globals);
  const std::string base = options.text("profile", machine.gpu.profile);
  calibrate::RunsWanted wanted;
  wanted.profile = need(input::locate(input::Kind::profile, base));
  const bool own = machine.communication == machine.gpu.profile &&
                   need(input::load_profile(wanted.profile)).has_communication;
  if (!own) wanted.communication = need(input::locate(input::Kind::profile, machine.communication));
  if (options.has("cluster")) wanted.machine = &machine;
  wanted.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const calibrate::RunFit fit =
      need(calibrate::fit_runs(rows, need(calibrate::find_factors()), wanted));
  const std::vector<std::string> doubts = calibrate::doubts(fit);
  const std::string output = options.text("output");
  const bool refused = !output.empty() && !doubts.empty() && !options.has("force");
  if (!output.empty() && !refused) {
    const std::string problem =
        output::write_file(output, profile_text(fit, base, machine, options));
    if (!problem.empty()) throw Stop{exit_io, problem};
  }
  if (!refused || !globals.json) say(globals, "calibrate-runs", run_fit_document(fit));
  if (!refused) {
    print_doubts(doubts);
    return exit_yes;
  }
  throw Stop{exit_data, fmt::format("{} is not written: {}; --force writes it all the same", output,
                                    fmt::join(doubts, "; "))};
}

}  // namespace sim::command
