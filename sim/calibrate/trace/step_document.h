// step_document.h — the comparison of traces with a plan as blocks of a document.
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

// Draws the first step of the trace and the expected step, queue by queue on neighbouring tracks,
// aligned at their begins.
void draw(const ComparedTrace& compared, output::SliceTrace& out);

}  // namespace sim::calibrate
