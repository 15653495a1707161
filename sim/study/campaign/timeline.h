// timeline.h — the timeline of one seed as a strip of characters, and as a Perfetto trace.
//
//    seed 1  |=====x====-======wwx====|     = trains, x down, w waits for nodes, - smaller shape
#pragma once

#include <string>
#include <vector>

#include "sim/study/campaign/job.h"

namespace sim::campaign {

// A strip with one character per part of the time: its main activity.
std::string strip(const std::vector<Slice>& timeline, int columns);

// Text for a slice: the phase and plan, "save", or the failure that caused it.
std::string words(const Spec& spec, const Slice& slice);

// Writes a trace with tracks for training by shape, saves, detection, waiting and restarts by
// cause. Returns "" or the error.
std::string write_trace(const std::string& path, const Spec& spec, const std::string& name,
                        const std::vector<Slice>& timeline);

}  // namespace sim::campaign
