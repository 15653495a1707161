// fast_engine.h — the fast engine: an Executor that runs operations, and a SteadyState that skips
// repetitions.
//
// It needs no event queue: every time is a maximum of known times plus a duration. Memory sees the
// same clocks as in the reference engine. sim/engine/README.md describes the life of a step.
//
// With one hardware queue per stream, the CPU may continue before the first of two messages in a
// queue has a known time. The start of the second is then known later (`settle`). The same holds
// for collectives across classes, and for memory that they use. An allocation must know whether
// such a time is past. If all classes wait, the class with the earliest clock continues as if it
// were not past: everything that is still to be issued comes later (`answer`).
#pragma once

#include "sim/engine/replay.h"

namespace sim::engine {

RunReport run_fast(const program::Job& job, const Times& times, const Memory& memory,
                   const Options& options);

// A lower bound on the step time: the replay of one step without its tensors. Every step begins
// after a barrier, and every time in it is a maximum of sums. So a driver call of the allocator can
// only make it longer. A step without driver calls takes exactly this time. The result is 0 if the
// steps of the job do not end together.
Duration least_step(const program::Job& job, const Times& times, const Memory& memory);

}  // namespace sim::engine
