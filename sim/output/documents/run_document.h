// run_document.h — the page of one run: the answer, the pipeline of all stages, memory over time,
// the accounts of the step, and link use.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/pass_timeline.h"

namespace sim::output {

// The busiest link of one kind.
struct LinkBusy {
  std::string kind, busiest, traffic;
  double busy = 0, mean = 0;  // shares of the step
  int links = 0;
};

// `intervals` is the text of interval.h, or "". `fabric` is an SVG of link use, or "". REQUIRES:
// both timelines observed the answer's replay.
Document run_document(const answer::Answer& answer, const std::string& intervals,
                      const PassTimeline& passes, const MemoryTimeline& memory,
                      const std::vector<LinkBusy>& links, const std::string& fabric = "");

}  // namespace sim::output
