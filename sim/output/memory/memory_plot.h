// memory_plot.h — memory over time as a picture (SVG 1.1): for each stage the rank that needs most,
// what it holds by category stacked on each other, what PyTorch has reserved, and what the device
// has for it.
#pragma once

#include <string>

#include "sim/answer/answer.h"
#include "sim/output/memory/memory_timeline.h"

namespace sim::output {

inline constexpr std::size_t most_panels = 8;

// REQUIRES: the timeline watched the answer's replay.
std::string memory_plot(const answer::Answer& answer, const MemoryTimeline& timeline);

}  // namespace sim::output
