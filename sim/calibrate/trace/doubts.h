// doubts.h — reasons not to fit a profile to a trace: the plan is not the one that ran, or the
// trace is not one of whole training steps. `calibrate TRACE --plan` calls it and writes no profile
// if there are any.
//
// Where the profiler recorded shapes, a reason says which setting of the plan disagrees, and its
// value by the trace.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/cluster/device/gpu.h"

namespace sim::calibrate {

// Empty if there are none. The reasons:
//  - the trace names another GPU than the plan's cluster has
//  - no kernel of a backward pass is matched: inference
//  - operations of the plan without a kernel, by more than a quarter of their predicted time:
//    half a trace, or another plan
//  - half of the kernel time, or more, matches no operation, or one that is predicted at less than
//    half or more than twice its time
//  - the step is predicted at less than half or more than twice its time
//  - the trace has another number of attention passes: layers, microbatches or recomputation
//  - products of the trace have shapes that the plan does not have: hidden, tokens, precision
std::vector<std::string> doubts(const ComparedTrace& trace, const program::Plan& plan,
                                const device::Gpu& gpu);

}  // namespace sim::calibrate
