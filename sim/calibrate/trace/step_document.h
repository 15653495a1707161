// step_document.h — what is said of traces that were compared with a plan.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/calibrate/trace/ranks.h"
#include "sim/report/document.h"
#include "sim/report/slice_trace.h"

namespace sim::calibrate {

std::vector<report::Block> comparison_blocks(const ComparedTrace& compared);
report::Rows clock_rows(const std::vector<RankClock>& clocks);

// The first step of the trace and the expected one, queue by queue on neighbouring tracks, both
// from their begin.
void draw(const ComparedTrace& compared, report::SliceTrace& out);

}  // namespace sim::calibrate
