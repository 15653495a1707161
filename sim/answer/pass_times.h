// pass_times.h — mean durations of the passes of a job, for schedules that are ordered by pass
// times.
//
// `evaluate` calls `timed_job` for each replay. A schedule such as zero-bubble searches its order
// with these times. Its original planner profiles some training steps first
// [zero-bubble-pipeline-parallelism, zerobubble/runtime.py]. This file sums priced kernels instead.
#pragma once

#include "sim/engine/replay.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/build/build.h"

namespace sim::answer {

// Mean durations over all stages and passes of a step, in seconds. A pass counts its kernels and
// the collectives that it waits for. `transfer` is the mean message between stages. `kept` is a
// share of bytes, from the tensors that the passes allocate and free.
schedule::Times pass_times(const program::Job& job, const engine::Times& times);

class CheckedPlan;

// Idle share of the busiest stage, in percent, as papers compute it. The schedule runs with one
// duration for each kind of pass. The optimizer and all waits other than those for passes are left
// out [arXiv 2401.10241, section 5.3].
double bubble_of_pass_times(const CheckedPlan& plan);

// The plan as `evaluate` replays it: if its schedule is ordered by pass times, with the times of
// its own programs.
program::Plan timed_plan(const CheckedPlan& plan);

// The device programs that `evaluate` replays. If the schedule is ordered by pass times, the order
// uses the times of the plan's own programs.
using TimedJob = std::shared_ptr<const program::Job>;
TimedJob timed_job(const CheckedPlan& plan, bool all_ranks = false);

}  // namespace sim::answer
