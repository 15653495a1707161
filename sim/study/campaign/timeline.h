// timeline.h — what one seed did when: a strip of characters, and a Perfetto trace.
//
//     seed 1  |=====x====-======wwx====|     = trains, x down, w waits for nodes, - smaller shape
#pragma once

#include <string>
#include <vector>

#include "sim/study/campaign/job.h"

namespace sim::campaign {

// One character for each part of the time: what took most of it.
std::string strip(const std::vector<Slice>& timeline, int columns);

// What the job did in a slice: its phase and plan, "save", or the failure behind it.
std::string words(const Spec& spec, const Slice& slice);

// Tracks: training by shape, saves, detection, waiting and restarts by cause. "" or what went
// wrong.
std::string write_trace(const std::string& path, const Spec& spec, const std::string& name,
                        const std::vector<Slice>& timeline);

}  // namespace sim::campaign
