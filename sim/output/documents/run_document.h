// run_document.h — one run as a document: the answer, the pipeline of all stages, memory over time,
// where the step's time goes, how busy the links are.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/pass_timeline.h"

namespace sim::output {

// The busiest link of each kind.
struct LinkBusy {
  std::string kind, busiest, traffic;
  double busy = 0, mean = 0;  // shares of the step
  int links = 0;
};

// `intervals`: what interval.h says about the answer, "" when nothing.
// `fabric`: the drawing of how busy its links are (an SVG), "" for none.
// REQUIRES: the timelines watched the answer's replay.
Document run_document(const answer::Answer& answer, const std::string& intervals,
                      const PassTimeline& passes, const MemoryTimeline& memory,
                      const std::vector<LinkBusy>& links, const std::string& fabric = "");

}  // namespace sim::output
