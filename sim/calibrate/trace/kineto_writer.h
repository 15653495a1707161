// kineto_writer.h — an expected step as PyTorch's profiler would have recorded it: Kineto's JSON,
// with kernels of each family's usual name, collectives with their sizes, steps annotated.
//
// What a replay does not know is left out: calls of the CUDA runtime, operators, shapes.
#pragma once

#include <string>

#include "sim/calibrate/trace/expected.h"

namespace sim::calibrate {

struct KinetoOptions {
  int rank = 0, steps = 1;
  std::string device;         // "NVIDIA H100 80GB HBM3"
  std::int64_t clock_ns = 0;  // what the rank's clock says when the first step begins
};

std::string kineto_trace(const ExpectedStep& step, const KinetoOptions& options);

}  // namespace sim::calibrate
