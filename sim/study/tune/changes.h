// changes.h — plans that differ from a plan in one setting: changes that need less memory, and
// changes against one loss of time. `fixes` and `improve` replay them.
//
// Invariants
// (1) A change is possible: answer::check accepted the changed plan.
// (2) A change keeps the number of GPUs and the global batch.
// (3) Its text, given as settings after the plan's own, makes the changed plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/answer/checked_plan.h"
#include "sim/study/tune/losses.h"

namespace sim::study {

// `text` is the setting for the command line: "micro_batch=1".
struct Change {
  std::string text;
  answer::CheckedPlan plan;
};

// Changes that need less memory, smallest change first: free changes, then slower ones, then other
// parallelism.
std::vector<Change> single_changes(const answer::CheckedPlan& plan);

// Changes that may lose less by this cause.
std::vector<Change> changes_against(const answer::CheckedPlan& plan, Cause cause);

// Whether a change recomputes all layers, each by itself; fewer may do.
bool recomputes_by_layer(const Change& change, const answer::CheckedPlan& before);

// Finds the fewest recomputed layers per chunk for which `enough` holds, by bisection: more
// recomputation never needs more memory. Calls `enough` with each number that it tries. REQUIRES:
// it holds for all layers.
void fewest_recomputed(const answer::CheckedPlan& plan,
                       const std::function<bool(const Change&)>& enough);

}  // namespace sim::study
