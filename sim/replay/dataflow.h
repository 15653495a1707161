// dataflow.h — the fast engine: computes when each operation starts from what it waits for.
//
// Rank classes run one after another, each until it needs something that another has not issued
// yet. No event queue is needed: every time is a maximum of known times plus a duration, and memory
// sees the same clocks as in the reference. Two shortcuts, both exact:
//
//   cuts   At a cut (program.h) all classes stop. When the whole state (clocks, streams, messages
//          on the way, allocator, live tensors), taken relative to a common origin and with frames
//          numbered by age, equals the state at an earlier cut, the passes in between repeat: the
//          remaining whole periods are added up instead of run.
//   steps  When a step starts in the state in which the step before it started, it is that step
//          again.
#pragma once

#include "sim/replay/replay.h"

namespace sim::replay {

RunReport run_dataflow(const workload::Job& job, const Times& times, const Memory& memory,
                       const Options& options);

}  // namespace sim::replay
