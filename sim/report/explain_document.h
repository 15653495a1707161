// explain_document.h — why a plan's memory is what it is: where each stage's peak is and who holds
// it, where every byte of the GPU is, and what is missing.
#pragma once

#include "sim/report/answer.h"
#include "sim/report/document.h"
#include "sim/report/peak_tensors.h"

namespace sim::report {

// REQUIRES: `tensors` watched the answer's replay.
Document explain_document(const Answer& answer, const PeakTensors& tensors);

}  // namespace sim::report
