// fast_engine.h — the fast engine: an Executor that runs operations, and a SteadyState that skips
// what repeats.
//
// No event queue is needed: every time is a maximum of known times plus a duration, and memory sees
// the same clocks as in the reference engine. README.md of this folder tells the life of a step.
//
// With a hardware queue for each stream the CPU goes on before the first of two messages in a queue
// has its time; the second starts at a time that is known later (`settle`). The same holds for
// collectives in which unlike classes meet, and for memory that these hold. An allocation has to
// know whether such a time is past. Where all classes wait, it is not past for the class whose
// clock is behind all others': nothing that is still to be issued comes before it (`answer`).
#pragma once

#include "sim/engine/replay.h"

namespace sim::engine {

RunReport run_fast(const program::Job& job, const Times& times, const Memory& memory,
                   const Options& options);

// A lower bound on the step time: the replay of one step without its tensors. Every step begins
// after a barrier, and all that it waits for is a maximum of sums, so a driver call of the
// allocator can only make it longer; a step without driver calls takes exactly this. 0: the steps
// of the job do not end together.
Duration least_step(const program::Job& job, const Times& times, const Memory& memory);

}  // namespace sim::engine
