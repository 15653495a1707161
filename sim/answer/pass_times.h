// pass_times.h — how long the passes of a job take, for schedules whose order is searched for with
// them: zero-bubble's planner profiles some steps first [zero-bubble-pipeline-parallelism,
// zerobubble/runtime.py], a rehearsal adds up its kernels.
#pragma once

#include "sim/engine/replay.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/build/build.h"

namespace sim::answer {

// Mean over stages and passes of a step: kernels and the collectives that they wait for, and the
// messages between stages. Seconds. `kept` by what the program's passes allocate and free.
schedule::Times pass_times(const program::Job& job, const engine::Times& times);

struct Site;

// Idle share of the longest stage, in percent, as papers compute it: the schedule's order, run with
// one duration of each pass, those of the plan's own programs. No optimizer, nothing that stages
// wait for but each other's passes [arXiv 2401.10241, section 5.3].
// REQUIRES: problems(plan, site) is empty.
double bubble_of_pass_times(const program::Plan& plan, const Site& site);

// The programs that `evaluate` replays: where the schedule's order goes by the times of passes, in
// the order that those of the plan's own programs give.
program::Job timed_job(const program::Plan& plan, const Site& site, bool all_ranks = false);

}  // namespace sim::answer
