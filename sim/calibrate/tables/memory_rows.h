// memory_rows.h — rows of a table of measured memory in the words of a table of measured runs.
//
// Such a table (calibration/measured/memory.csv) has one row per rank or stage, with
// `cur_alloc_gib`, `max_alloc_gib` and `max_reserved_gib` (torch's current, peak allocated and peak
// reserved bytes), and leaves out what decides time only. What it leaves open is filled here from
// its source; the rest of the way is that of every run.
#pragma once

#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

// A row of any other table comes back as it is.
Row run_row(const Row& row);

}  // namespace sim::calibrate
