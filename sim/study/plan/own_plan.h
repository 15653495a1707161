// own_plan.h — a search that starts from the user's own plan: a launch file, or a plan file.
//
// The command `plan` calls it. The job comes from the file: network, batch, GPUs, framework,
// precision, and all settings that no search varies. The search chooses the others. The answer
// compares its best plan with the file's own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/input/plan/plan.h"
#include "sim/study/plan/launch/own_script.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

struct OwnPlan {
  std::string path;
  bool launch_file = false;            // read by --megatron-args; otherwise a plan file
  std::vector<std::string> overrides;  // settings with which the file was loaded
  std::vector<std::string> said;       // settings of the line, which the search follows
  input::PlanFile file;
  Replayed replayed;
  std::optional<OwnScript> script;  // of a launch script of Megatron-LM
};

// The settings of the file that the search keeps: not those that it varies, that the question asks
// by an option (GPUs, batch, sequence), or that `said` states again.
std::vector<std::string> job_of(const input::PlanFile& file, const std::vector<std::string>& said);

// Settings of the line that change the file's own plan too: one value each, of fields that no
// search varies.
std::vector<std::string> changes_of_job(const std::vector<std::string>& said);

// Loads the file with these settings, as `run` does.
Result<input::PlanFile> load_own(const std::string& path, bool launch_file,
                                 const std::vector<std::string>& overrides);

// A field with different values in two plans.
struct Change {
  std::string field, from, to;
};
// The fields that the search varies or that `said` states, in the order of the table; `zero` is one
// field. Without those that have no effect on `to`, and those that follow from the others.
std::vector<Change> changes(const program::Plan& from, const program::Plan& to,
                            const std::vector<std::string>& said);

// The words of `run` that give `plan`: the file, and these changes. "" if they do not give it.
std::string words_from_own(const OwnPlan& own, const program::Plan& plan);

}  // namespace sim::planner
