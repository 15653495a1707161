// run_fit_document.h — the result of a fit to whole runs: factors, errors before and after, runs
// that were left out, and the measurement that would reduce the remaining variance most. The
// command `calibrate` prints it.
#pragma once

#include "sim/calibrate/runs/run_fit.h"
#include "sim/output/document.h"

namespace sim::calibrate {

output::Document run_fit_document(const RunFit& fit);

}  // namespace sim::calibrate
