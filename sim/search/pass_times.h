// pass_times.h — how long the passes of a job take, for schedules whose order is searched for with
// them: zero-bubble's planner profiles some steps first [zero-bubble-pipeline-parallelism,
// zerobubble/runtime.py], a rehearsal adds up its kernels.
#pragma once

#include "sim/replay/replay.h"
#include "sim/schedule/schedule.h"
#include "sim/workload/build.h"

namespace sim::search {

// Mean over stages and passes of a step: kernels and the collectives that they wait for, and the
// messages between stages. Seconds.
schedule::Times pass_times(const workload::Job& job, const replay::Times& times);

}  // namespace sim::search
