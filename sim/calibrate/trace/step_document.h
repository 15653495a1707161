// step_document.h — what is said of traces that were compared with a plan.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/calibrate/trace/ranks.h"
#include "sim/output/document.h"
#include "sim/output/perfetto/slice_trace.h"

namespace sim::calibrate {

std::vector<output::Block> comparison_blocks(const ComparedTrace& compared);
output::Rows clock_rows(const std::vector<RankClock>& clocks);

// The first step of the trace and the expected one, queue by queue on neighbouring tracks, both
// from their begin.
void draw(const ComparedTrace& compared, output::SliceTrace& out);

}  // namespace sim::calibrate
