// dropped_file.h — a file that a user drops on the page: its kind, and the settings that it holds.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/plan.h"
#include "sim/output/json.h"

namespace sim::command::web {

// Prints {"kind": "model", "launch" or "plan", "settings": [...], "notes": [...]} for {"name":
// "config.json", "text": ...}. Stops with the problems of a file that cannot be read. The file is
// written to `scratch` for the readers and removed before the function returns.
int read_dropped(const output::Json& request, const std::string& scratch);

// Settings that give this plan without its file: load_plan("", settings) has an equal plan. Fields
// at their defaults are left out.
std::vector<std::string> settings_of(const input::PlanFile& file);

}  // namespace sim::command::web
