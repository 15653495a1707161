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
//
// Messages of a queue start one after the other, and a class is followed up to the second one only
// when the first has its time. Where receives are posted far ahead that can be a circle which the
// GPUs do not have: then nothing is answered, and the reference runs the job.
#pragma once

#include <optional>

#include "sim/replay/replay.h"

namespace sim::replay {

// Nothing: the classes wait for each other; an observer has seen a part then.
std::optional<RunReport> run_dataflow(const workload::Job& job, const Times& times,
                                      const Memory& memory, const Options& options);

// What a step takes at least: the replay of one without its tensors. Every step begins behind a
// barrier, and all that it waits for is a maximum of sums, so a driver call of the allocator can but
// make it longer; where there is none in a step it takes exactly this. 0: the classes wait for each
// other.
Duration least_step(const workload::Job& job, const Times& times, const Memory& memory);

}  // namespace sim::replay
