// calibrate_runs.h — the part of `rehearse calibrate` that fits the factors of a profile to whole
// runs: rows of tables, and logs of a plan's steps.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/runs/run_fit.h"
#include "sim/command/common/command.h"

namespace sim::command {

// Whether the file is a table of measured runs.
bool is_run_table(const std::string& path);

// The rows of tables of runs, those of `machine`'s profile alone unless --cluster is given.
std::vector<input::RunsRow> load_run_tables(const std::vector<std::string>& paths);
void keep_profile(const input::Machine& machine, std::vector<input::RunsRow>& rows,
                  const Globals& globals);

// The machine of the first row that names a known GPU; stops if there is none.
input::Machine machine_of_runs(const std::vector<input::RunsRow>& rows);

// The profile to start from, with the machine's communication.
input::ProfileDraft base_of_runs(const std::string& path, const input::Machine& machine);

// The priors of the factors that `kernels` fitted are narrower: a factor is known as well as its
// kernels are predicted after the fit, and no better than 3 %.
void narrow_priors(const calibrate::Fit& kernels, std::vector<calibrate::Factor>& factors);

// A warning about runs that are predicted to run out of memory; "" if there are none. Looks at the
// first 32.
std::string out_of_memory_text(const calibrate::RunsToFit& runs);

// 90 % intervals of a run's time, before and after the fit.
void add_spreads(const calibrate::RunsToFit& runs, calibrate::RunFit& fit);

}  // namespace sim::command
