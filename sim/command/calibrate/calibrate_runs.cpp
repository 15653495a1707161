#include "sim/command/calibrate/calibrate_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/memory_rows.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/calibrate/validate.h"
#include "sim/input/profile/profile.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"

namespace sim::command {

bool is_run_table(const std::string& path) {
  const Result<input::Table> table = input::load_table(path);
  return table && table->has("row_id") && table->has("tp") && table->has("pp") &&
         calibrate::measured_table(*table) == nullptr &&
         calibrate::timing_table(*table) == calibrate::TimingTable::none;
}

std::vector<input::RunsRow> load_run_tables(const std::vector<std::string>& paths) {
  std::vector<input::RunsRow> rows;
  for (const std::string& path : paths) {
    input::RunsTable table = need(input::load_runs(path));
    if (table.rows.empty())
      throw Stop{complain({{path, "has no rows: there is nothing to fit"}}), ""};
    for (input::RunsRow& row : table.rows) {
      row.cells = calibrate::run_row(row.cells);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

input::Machine machine_of_runs(const std::vector<input::RunsRow>& rows) {
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

input::ProfileDraft base_of_runs(const std::string& path, const input::Machine& machine) {
  const bool own = machine.communication == machine.gpu.profile &&
                   need(input::load_profile(path)).has_communication;
  return need(calibrate::whole_profile(
      path, own ? "" : need(input::locate(input::Kind::profile, machine.communication))));
}

void narrow_priors(const calibrate::Fit& kernels, std::vector<calibrate::Factor>& factors) {
  constexpr double least = 0.03;
  for (calibrate::Factor& factor : factors)
    for (const calibrate::FittedParameter& p : kernels.parameters) {
      const std::string& field = factor.fields.front().pattern;
      if (!p.fitted || !field.starts_with(p.block)) continue;
      // Blocks are the first words of paths; links and networks share one.
      if (p.block == "communication" && !p.path.starts_with(field)) continue;
      for (const calibrate::SourceResidual& r : kernels.residuals)
        if (r.block == p.block)
          factor.prior = std::min(factor.prior, std::max(least, r.mean_absolute_percent / 100));
    }
}

std::string out_of_memory_text(const calibrate::RunsToFit& runs) {
  constexpr std::size_t most_replays = 32;
  answer::Sites sites;
  int out = 0, replayed = 0;
  for (std::size_t i = 0; i < std::min(runs.rows.size(), most_replays); ++i) {
    const calibrate::Prediction one =
        calibrate::predict(runs.rows[i], sites, {runs.machine, engine::MemoryDetail::bounded});
    if (!one.oom) continue;
    ++replayed;
    out += *one.oom ? 1 : 0;
  }
  if (out == 0) return "";
  return fmt::format(
      "{} of {} are predicted to run out of memory. If they ran, their rows lack a setting that "
      "saves memory (zero=1, sequence_parallel=true, recompute): a framework's name brings the "
      "defaults of its launcher. `validate` compares no such run",
      out, counted(replayed, "run"));
}

void add_spreads(const calibrate::RunsToFit& runs, calibrate::RunFit& fit) {
  std::vector<double> own;
  for (const calibrate::FittedRun& run : fit.runs) own.push_back(run.held_out);
  fit.spread_after = answer::spread_of_own_runs({"", "", own});
  if (runs.rows.empty()) return;
  answer::Sites sites;
  const calibrate::Prediction given =
      calibrate::predict(runs.rows.front(), sites, {runs.machine, engine::MemoryDetail::none});
  fit.spread_before =
      answer::spread(need(input::find_residuals()), input::ResidualOf::time, given.situation);
}

}  // namespace sim::command
