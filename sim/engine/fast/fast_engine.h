// dataflow.h — the fast engine: computes when each operation starts from what it waits for.
//
// Rank classes run one after another, each until it needs something that another has not issued
// yet. No event queue is needed: every time is a maximum of known times plus a duration, and memory
// sees the same clocks as in the reference. Two shortcuts, both exact:
//
//   cuts   At a cut (program.h) all classes stop, or as few passes behind it as others need to get
//          there: in interleaved schedules messages go round. When the whole state (clocks,
//          streams, messages on the way, allocator, live tensors), taken relative to a common
//          origin and with frames numbered by age, equals the state at an earlier cut, the passes
//          in between repeat: the remaining whole cycles are added up instead of run.
//   steps  When a step starts in the state in which the step before it started, it is that step
//          again.
//
// With a hardware queue for each stream the CPU goes on before the first of two messages in a queue
// has its time; the second starts at a time that is known later (`settle`). So do collectives in
// which unlike classes meet. Memory that these hold is free at a time that is known later, too. An
// allocation has to know whether that is past: where all classes wait, it is not for the class
// whose clock is behind all others', for nothing that anyone is still to issue comes before it
// (`answer`).
#pragma once

#include "sim/engine/replay.h"

namespace sim::engine {

RunReport run_dataflow(const program::Job& job, const Times& times, const Memory& memory,
                       const Options& options);

// What a step takes at least: the replay of one without its tensors. Every step begins behind a
// barrier, and all that it waits for is a maximum of sums, so a driver call of the allocator can
// but make it longer; where there is none in a step it takes exactly this. 0: steps do
// not end together.
Duration least_step(const program::Job& job, const Times& times, const Memory& memory);

}  // namespace sim::engine
