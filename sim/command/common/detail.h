// detail.h — `--memory`: how much of memory `run`, `sweep` and `whatif` look at.
#pragma once

#include "sim/command/common/command.h"
#include "sim/engine/report.h"

namespace sim::command {

void declare_detail(Options& options);
// By its name, "" for exact; stops where there is none.
engine::MemoryDetail detail_named(const std::string& name);
// Stops where what else is asked for needs every tensor in its place: `other` names that option, ""
// where there is none.
engine::MemoryDetail detail_of(const Options& options, const std::string& other = "");

}  // namespace sim::command
