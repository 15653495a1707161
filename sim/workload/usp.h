// usp.h — yunchang's two levels, of any shape: as a core of attention, and alone.
#pragma once

#include "sim/workload/attention.h"
#include "sim/workload/context_plan.h"

namespace sim::workload {

// As usp_core, with the order of tokens that the shape says.
Value usp_core(Writer& w, const CoreInputs& in, const context::Shape& shape);

}  // namespace sim::workload
