// calibrate_runs.h — the part of `rehearse calibrate` that fits a profile to whole runs.
#pragma once

#include <string>
#include <vector>

#include "sim/command/common/command.h"

namespace sim::command {

// Whether every one of the files is a table of measured runs.
bool are_run_tables(const std::vector<std::string>& paths);

int run_calibrate_runs(const Options& options, const Globals& globals);

}  // namespace sim::command
