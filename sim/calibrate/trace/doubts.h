// doubts.h — reasons not to fit a profile to a trace: another plan ran, or the trace has no whole
// training step. `calibrate TRACE --plan` calls it. If there is a reason, it writes no profile.
//
// If the profiler recorded shapes, a reason names the setting of the plan that is wrong, and the
// value that the trace shows.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/cluster/device/gpu.h"

namespace sim::calibrate {

// Empty if there is no doubt. The reasons:
//  - The trace names another GPU than that of the plan's cluster.
//  - No kernel matches a backward pass: the trace is of inference.
//  - Operations without a kernel make up more than a quarter of the predicted time: the trace is
//    cut off, or another plan ran.
//  - At least half of the kernel time matches no operation, or an operation whose predicted time
//    differs by more than a factor of two.
//  - The predicted step time differs from the measured one by more than a factor of two.
//  - The number of attention passes differs: other layers, microbatches or recomputation.
//  - Matrix products have other shapes: another hidden size, token count or precision.
std::vector<std::string> doubts(const ComparedTrace& trace, const program::Plan& plan,
                                const device::Gpu& gpu);

}  // namespace sim::calibrate
