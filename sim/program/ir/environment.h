// environment.h — the properties of a GPU and its libraries that decide what a rank allocates.
//
// build() (build/build.h) takes one for all ranks of a job. It never contains a rate: the duration
// of an operation is decided in engine/price.
#pragma once

#include "sim/base/units.h"

namespace sim::program {

struct Environment {
  Bytes engine_workspace{};  // TransformerEngine's cuBLASLt workspace, once per process
  Bytes cublas_workspace{};  // PyTorch's cuBLAS workspace, per handle and stream
  int sms = 108;             // rows of partial norm gradients
};

}  // namespace sim::program
