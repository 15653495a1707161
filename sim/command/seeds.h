// seeds.h — `rehearse run --seeds N`: runs the same plan with N draws of chance: random routes of
// tokens, paths of flows (fabric.hash_seed), GPUs that differ (jitter.seed).
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/command/common/command.h"
#include "sim/input/plan/plan.h"

namespace sim::command {

// Runs the plan with its seed and the following ones. Prints how many runs ran out of memory and
// where, and quantiles of peaks and times. Returns the exit code.
int run_seeds(const input::PlanFile& file, const answer::CheckedPlan& plan,
              const engine::Options& how, int seeds, int workers, bool json);

}  // namespace sim::command
