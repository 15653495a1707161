// explain_document.h — the document of `rehearse explain`: the peak of each stage and its tensors,
// every byte of the GPU, and the missing bytes.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/document.h"
#include "sim/output/memory/peak_tensors.h"

namespace sim::output {

// All bytes of the GPU of the rank class nearest to its limit, at its peak or its failed request.
Rows memory_rows(const answer::Answer& answer);

// REQUIRES: `tensors` observed the answer's replay.
Document explain_document(const answer::Answer& answer, const PeakTensors& tensors);

}  // namespace sim::output
