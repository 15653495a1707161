// dropped_file.h — a file that a user drops on the page: its kind, and the settings that it holds.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/plan.h"
#include "sim/output/json.h"

namespace sim::command::web {

// Prints {"kind": "model", "launch" or "plan", "settings": [...], "notes": [...]} for {"name":
// "config.json", "text": ..., "settings": [...]}. For a log of a run it prints {"kind": "log",
// "document": ...}, the log against the plan of the settings. Stops with the problems of a file
// that cannot be read. The file is written to `scratch` for the readers and removed before the
// function returns.
int read_dropped(const output::Json& request, const std::string& scratch);

// Prints {"kind": "snapshot", "document": ...} for {"name": ..., "file": PATH}: a memory snapshot
// that the server has stored.
int read_snapshot(const output::Json& request);

// Settings that give this plan without its file: load_plan("", settings) has an equal plan. Fields
// at their defaults are left out.
std::vector<std::string> settings_of(const input::PlanFile& file);

}  // namespace sim::command::web
