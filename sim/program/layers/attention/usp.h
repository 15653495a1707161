// usp.h — yunchang's two-level context parallelism (USP) with an explicit shape.
//
// attention_alone.cpp calls it to time an attention core by itself (`rehearse calibrate`). The
// core of a plan is usp_core in attention.h. Sources: usp.cpp.
#pragma once

#include "sim/program/layers/attention/head_exchange.h"

namespace sim::program {

// The same as usp_core(w, in), with degrees and order of tokens from `shape`.
Value usp_core(Writer& w, const CoreInputs& in, const context::AttentionShape& shape,
               QkvLayout layout = QkvLayout::separate);

}  // namespace sim::program
