// timelines.h — a run's passes and memory over time as columns of numbers, for programs.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/json.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/pass_timeline.h"

namespace sim::output {

// {"passes": columns of the last step's passes, all rank classes; "memory": of each rank class
// columns of its intervals}. Seconds since the start, bytes. REQUIRES: both watched the answer's
// replay.
Json timelines(const answer::Answer& answer, const PassTimeline& passes,
               const MemoryTimeline& memory);

}  // namespace sim::output
