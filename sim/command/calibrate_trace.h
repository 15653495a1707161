// calibrate_trace.h — the part of `rehearse calibrate` that compares traces with a plan.
#pragma once

#include "sim/command/common/command.h"

namespace sim::command {

// REQUIRES: the options `--plan`, `--set`, `--rank` and `--trace` are declared; the words are
// traces.
int run_calibrate_trace(const Options& options, const Globals& globals);

}  // namespace sim::command
