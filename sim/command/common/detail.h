// detail.h — the option `--memory` of `run`, `sweep` and `whatif`: how exactly memory is replayed.
#pragma once

#include "sim/command/common/command.h"
#include "sim/engine/report.h"

namespace sim::command {

void declare_detail(Options& options);
// The level of detail with that name; "" means exact. Stops if there is none.
engine::MemoryDetail detail_named(const std::string& name);
// The level of detail in the options. Stops if another option needs exact memory: `other` is its
// name, "" if there is none.
engine::MemoryDetail detail_of(const Options& options, const std::string& other = "");

}  // namespace sim::command
