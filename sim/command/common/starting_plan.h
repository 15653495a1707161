// starting_plan.h — the plan that `rehearse plan` starts from: a plan file, or a launch file of
// --megatron-args.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/command/common/command.h"
#include "sim/study/plan/own_plan.h"

namespace sim::command {

// Loads the file as `run` does, and prints its notes. {}: the words name a model and a cluster.
// --gpus, --batch, --sequence, --cluster and settings that no search varies change it. A value that
// the file leaves open may also come from a setting that the search varies. `replayed` stays empty.
std::optional<planner::OwnPlan> starting_plan(const Options& options, const Globals& globals);

// The search of that plan's job.
planner::Question question_from(const planner::OwnPlan& own, const Options& options);

}  // namespace sim::command
