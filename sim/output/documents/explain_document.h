// explain_document.h — why a plan's memory is what it is: where each stage's peak is and who holds
// it, where every byte of the GPU is, and what is missing.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/document.h"
#include "sim/output/memory/peak_tensors.h"

namespace sim::output {

// REQUIRES: `tensors` watched the answer's replay.
Document explain_document(const answer::Answer& answer, const PeakTensors& tensors);

}  // namespace sim::output
