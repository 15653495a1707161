// seeds.h — `rehearse run --seeds N`: the same plan with the routes of N seeds.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/command/common/command.h"
#include "sim/input/plan/plan.h"

namespace sim::command {

// Prints how many of the runs ran out of memory and where, and the quantiles of peaks and times;
// the exit status. Seeds are the plan's and those behind it.
int run_seeds(const input::PlanFile& file, const answer::CheckedPlan& plan,
              const engine::Options& how, int seeds, int workers, bool json);

}  // namespace sim::command
