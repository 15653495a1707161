// memory_rows.h — turns rows of a table of measured memory, and rows that state tokens or samples
// per second, into rows of a table of runs. The commands `validate` and `calibrate` call it before
// the prediction.
//
// Such a table (calibration/measured/memory.csv) has one row per rank or stage. Columns
// `cur_alloc_gib`, `max_alloc_gib` and `max_reserved_gib` are torch's current, peak allocated and
// peak reserved bytes. Columns that only affect time are missing. This function fills them from the
// row's source.
#pragma once

#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

// `iter_time_s` of a row without a time and TFLOP/s follows from tokens_s, tokens_s_gpu or
// samples_s. Other rows are returned unchanged.
Row run_row(const Row& row);

}  // namespace sim::calibrate
