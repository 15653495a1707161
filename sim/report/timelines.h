// timelines.h — a run's passes and memory over time as columns of numbers, for programs.
#pragma once

#include "sim/report/answer.h"
#include "sim/report/json.h"
#include "sim/report/memory_timeline.h"
#include "sim/report/pass_timeline.h"

namespace sim::report {

// {"passes": columns of the last step's passes, all rank classes; "memory": of each rank class
// columns of its intervals}. Seconds since the start, bytes. REQUIRES: both watched the answer's
// replay.
Json timelines(const Answer& answer, const PassTimeline& passes, const MemoryTimeline& memory);

}  // namespace sim::report
