// memory_rows.h — turns rows of a table of measured memory, and rows that state tokens or samples
// per second, into rows of a table of runs. The commands `validate` and `calibrate` call it before
// the prediction.
//
// Such a table (calibration/measured/memory.csv) has one row per rank or stage. Its columns
// `max_alloc_gib` and `max_reserved_gib` are torch's peak allocated and peak reserved bytes. They
// become `mem_alloc_peak_gib` and `mem_reserved_peak_gib`, the columns of a table of runs. Columns
// that only affect time are missing, and stay so.
#pragma once

#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

// `iter_time_s` of a row without a time and TFLOP/s follows from tokens_s, tokens_s_gpu or
// samples_s. Other rows are returned unchanged.
Row run_row(const Row& row);

}  // namespace sim::calibrate
