// reference.h — the reference engine: every operation of every microbatch of every rank class, as
// events on a queue in the order of simulated time. No shortcut, no look ahead.
//
// A stream is a queue of entries; its head starts when what it depends on has happened: the SMs are
// free (kernels), the launch before it has started (single hardware queue), the issuing stream has
// got as far as it was at the time of issue (collectives, exchanges), an event has been passed
// (waits). A rank's CPU is a process that handles one instruction per event.
//
// Once a rank is out of memory its times are hypothetical; the engines agree on them only up to
// there.
#pragma once

#include "sim/engine/replay.h"

namespace sim::engine {

RunReport run_reference(const program::Job& job, const Times& times, const Memory& memory,
                        const Options& options);

}  // namespace sim::engine
