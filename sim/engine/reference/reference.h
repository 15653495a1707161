// reference.h — the reference engine: executes every operation of every rank class as an event.
//
// run() calls it for Method::reference and for coupled networks; tests compare the fast engine with
// it. Events fire in the order of simulated time. It takes no shortcut and never looks ahead.
//
// A stream is a queue of entries. The head of a queue starts when its dependencies are met:
//   kernel                 the SMs are free
//   collective, exchange   the issuing stream has finished the work issued before it
//   wait                   its event has been passed
//   all but waits          with a single hardware queue, the launch before it has started
// The CPU of a rank is a process that handles one instruction per event.
//
// Limit: after a rank has run out of memory its times are hypothetical. The two engines agree only
// up to that point.
#pragma once

#include "sim/engine/replay.h"

namespace sim::engine {

// Replays a job. Fills accounts and memory of every class; run() adds the rest.
RunReport run_reference(const program::Job& job, const Times& times, const Memory& memory,
                        const Options& options);

}  // namespace sim::engine
