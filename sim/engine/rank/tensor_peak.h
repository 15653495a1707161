// tensor_peak.h — the peak of the sum of a program's tensors: what an allocator without
// fragmentation would reserve. It is a lower bound on the memory of every replay, in bytes.
//
// Searches discard plans by it, and `--memory bounded` decides verdicts by it. Each tensor is
// rounded up as PyTorch's caching allocator does.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"

namespace sim::engine {

// Of the setup, the first step, and as many passes of the second step as the first step has.
std::int64_t bytes_of_tensors(const program::Program& program);
// Of the setup and two whole steps: the exact peak.
std::int64_t peak_of_tensors(const program::Program& program);
// Of the setup and both steps, each up to its first backward pass (included).
std::int64_t bytes_until_backward(const program::Program& program);

}  // namespace sim::engine
