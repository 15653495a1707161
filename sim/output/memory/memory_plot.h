// memory_plot.h — plots memory over time (SVG 1.1). For each stage it shows the fullest rank:
// stacked categories, reserved memory, and the capacity.
#pragma once

#include <string>

#include "sim/answer/answer.h"
#include "sim/output/memory/memory_timeline.h"

namespace sim::output {

inline constexpr std::size_t most_panels = 8;

// REQUIRES: the timeline observed the answer's replay.
std::string memory_plot(const answer::Answer& answer, const MemoryTimeline& timeline);

}  // namespace sim::output
