// calls.h — kernels that a library launches for one call, together: what a plan has as one
// operation a trace may have as several kernels of which only one says what it is.
//
//     in front   memset: the counters that cuBLAS's and cuDNN's kernels share, a few bytes each
//                copy of a list from the CPU: pointers of the tensors that one kernel goes over
//                (PyTorch aten/native/cuda/TensorShape.cu: chunk_cat, split_with_sizes_copy_out)
//                dot_do_o: rows of attention's backward
//     behind     convert_dq: its sums in the wider type, cast back
//     in a row   multi_tensor_apply: as many launches as the tensors' addresses need
//     copies     a collective among n ranks that copy engines carry: n - 1 of them
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/calibrate/trace/align.h"
#include "sim/calibrate/trace/measured.h"

namespace sim::calibrate {

// One copy from one GPU's memory to its own or another's.
bool is_device_copy(const MeasuredKernel& kernel);

struct Calls {
  static constexpr std::size_t elsewhere = ~std::size_t{0};
  std::vector<AlignItem> items;
  std::vector<std::size_t> item_of;  // of each of the kernels, or elsewhere
};

// Of the kernels of a step those on `streams`. `ranks`: of the communicator whose queue these
// streams are; below 2: it is none, and copies are copies.
Calls calls_of(const MeasuredTrace& trace, std::span<const std::uint32_t> kernels,
               std::span<const int> streams, int ranks);

}  // namespace sim::calibrate
