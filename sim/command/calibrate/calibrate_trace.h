// calibrate_trace.h — the part of `rehearse calibrate` that compares traces of steps with the plan
// that ran.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/command/common/command.h"
#include "sim/output/document.h"

namespace sim::command {

// Each trace matched with the plan's step. REQUIRES: the options `--rank` and `--trace` are
// declared. Writes the drawing of --trace.
std::vector<calibrate::ComparedTrace> compare_traces(const std::vector<std::string>& paths,
                                                     const Options& options,
                                                     const answer::CheckedPlan& plan);

// The comparison of each trace, and of the ranks' clocks.
void add_comparison(const std::vector<calibrate::ComparedTrace>& traces,
                    output::Document& document);

}  // namespace sim::command
