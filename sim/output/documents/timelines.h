// timelines.h — passes and memory of a run over time, as columns of numbers for programs.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/json.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/pass_timeline.h"

namespace sim::output {

// JSON with "passes": columns of the last step's passes of all rank classes; and "memory": for each
// rank class columns of its intervals. Seconds since the start, bytes. REQUIRES: both timelines
// observed the answer's replay.
Json timelines(const answer::Answer& answer, const PassTimeline& passes,
               const MemoryTimeline& memory);

}  // namespace sim::output
