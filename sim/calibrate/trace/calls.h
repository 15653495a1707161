// calls.h — groups the kernels that one library call launches. The function match() aligns calls
// instead of single kernels.
//
// Libraries split a call into launches, and prepare it by clears and copies of a few bytes:
//  chunks     PyTorch's lists of tensors (MultiTensorApply.cuh: 65536 elements a block, 320 or
//             2240 blocks a launch), apex's and TransformerEngine's; an optimizer is a row of
//             such lists
//  before     memset of the counters of a product whose blocks share tiles (cuBLAS), of an
//             attention (cuDNN), of a sum over several blocks (PyTorch's Reduce.cuh), of a sort
//             (CUB); the array of pointers for a copy of many tensors (PyTorch's TensorShape.cu)
//  after      the sum of the chunks of a norm (PyTorch's ForeachReduceOp.cu, apex)
//  in a row   a sort or a scan of CUB, and the kernels of PyTorch's embedding gradient that use it
//             (EmbeddingBackwardKernel.cu)
//  stand-ins  copies that PyTorch's "fake" process group runs instead of one gather
//
// Invariants
// (1) Each kernel belongs to one call. All kernels of a call are on one stream, one after the
//     other.
// (2) A call has the family of its main kernel and the time of all its kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/calibrate/trace/align.h"
#include "sim/calibrate/trace/measured.h"

namespace sim::calibrate {

struct Call {
  AlignItem item;
  int stream = -1;
};

struct Calls {
  std::vector<Call> all;                 // in order of the start of their main kernels
  std::vector<std::uint32_t> of_kernel;  // for each kernel of the step the index of its call
};

Calls calls_of(const MeasuredTrace& trace, const MeasuredStep& step);

}  // namespace sim::calibrate
