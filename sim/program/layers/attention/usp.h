// usp.h — yunchang's two levels, of any shape: as a core of attention, and alone.
#pragma once

#include "sim/program/layers/attention/attention.h"
#include "sim/program/plan/context_plan.h"

namespace sim::program {

// As usp_core, with the order of tokens that the shape says.
Value usp_core(Writer& w, const CoreInputs& in, const context::Shape& shape);

}  // namespace sim::program
