// explain_document.h — the document of `rehearse explain`: the peak of each stage and its tensors,
// every byte of the GPU, and the missing bytes.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/document.h"
#include "sim/output/memory/peak_tensors.h"

namespace sim::output {

// REQUIRES: `tensors` observed the answer's replay.
Document explain_document(const answer::Answer& answer, const PeakTensors& tensors);

}  // namespace sim::output
