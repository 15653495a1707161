// plan_task.h — the question of `rehearse plan`, from words to a space of plans.
//
// run_plan (plan.cpp) calls it for one search, plan_clusters.cpp once for each cluster.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/answer/run_cost.h"
#include "sim/command/common/command.h"
#include "sim/command/common/launch_folder.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "sim/study/plan/own_plan.h"
#include "sim/study/plan/search.h"

namespace sim::command {

// Declares the options of the command.
void declare_plan_search(Options& options);

// The command's options, after a file was replaced by its words.
struct PlanArguments {
  std::unique_ptr<Options> options = std::make_unique<Options>("plan");
  Arguments arguments;
  std::map<std::string, std::string> places;
  LaunchFiles earlier;  // of the plan that the output folder has
};

// Parses the words. Stops if they are invalid.
PlanArguments plan_arguments(const Arguments& arguments, Globals& globals);

// A question, parsed.
struct PlanTask {
  std::optional<planner::OwnPlan> own;
  planner::Question question;
  planner::Wanted wanted;
  planner::Space space;
  answer::CostBasis cost;
  double limit = 0;
  planner::Launcher launcher = planner::Launcher::torchrun;
  bool asks_constraints = false;
  LaunchFiles earlier;
  std::chrono::steady_clock::duration took{};  // to make the task; part of the time limit
};

// Stops if the question is invalid. A space without a possible plan is a task too.
PlanTask plan_task(const PlanArguments& all, const Globals& globals);

// The reason why no plan of the space is possible. REQUIRES: it has none.
std::string why_impossible(const planner::Space& space);

}  // namespace sim::command
