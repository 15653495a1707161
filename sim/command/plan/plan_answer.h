// plan_answer.h — runs the search of `rehearse plan` and prints its answer.
#pragma once

#include <chrono>
#include <string>

#include "sim/command/common/progress.h"
#include "sim/command/plan/plan_task.h"

namespace sim::command {

// A running search, with its progress line, Ctrl-C and time limit.
class RunningSearch {
 public:
  RunningSearch(const PlanTask& task, const Globals& globals)
      : space_(task.space),
        plans_(task.space.plans()),
        limit_(task.limit),
        began_(std::chrono::steady_clock::now() - task.took),
        progress_("plan", static_cast<std::size_t>(plans_), globals.quiet) {}

  bool goes_on() const;
  // Half of the time limit is over.
  bool hurry() const { return limit_ > 0 && passed() > limit_ / 2; }
  // False: the search ends.
  bool show(const planner::Progress& now);
  void clear() { progress_.clear(); }

 private:
  double passed() const;  // seconds

  const planner::Space& space_;
  std::int64_t plans_;
  double limit_;
  std::chrono::steady_clock::time_point began_;
  Progress progress_;
};

// Prints plans on which the simulator failed; of many only the first ones.
void say_failures(const std::vector<std::string>& failures);

// Where the answer goes besides stdout; "": not there.
struct PlanOutput {
  std::string folder, page, csv;
  bool overwrite = false;
};
// Stops if --csv and --json both write to stdout.
PlanOutput plan_output(const Options& options, const Globals& globals);

// Runs the search and prints the answer. Returns the exit code.
int answer_plan(PlanTask& task, const PlanOutput& into, const Globals& globals);

}  // namespace sim::command
