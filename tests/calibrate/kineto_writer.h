// kineto_writer.h — writes an expected step in the JSON format of PyTorch's profiler (Kineto).
// Kernels have a typical name of their family, collectives have sizes, steps are annotated.
//
// The replay does not know calls of the CUDA runtime, operators and shapes; they are left out.
#pragma once

#include <string>

#include "sim/calibrate/trace/expected.h"

namespace sim::calibrate {

struct KinetoOptions {
  int rank = 0, steps = 1;
  std::string device;         // "NVIDIA H100 80GB HBM3"
  std::int64_t clock_ns = 0;  // time of the rank's clock at the begin of the first step
};

std::string kineto_trace(const ExpectedStep& step, const KinetoOptions& options);

}  // namespace sim::calibrate
