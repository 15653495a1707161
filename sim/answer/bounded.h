// bounded.h — the answer of `--memory bounded`: the sum of the tensors decides the verdict where it
// can. Sweeps call it for each point.
//
//     fits            reserved_by_tensors(peak of the tensors) is below the least capacity of each
//                     rank class. Only times are replayed
//     out of memory   the tensors of a class exceed its largest capacity. The replay ends where
//                     memory runs out
//     otherwise       a replay with MemoryDetail::bounded, which ends where memory runs out
//
// Where a report says `bounded` or `ended_early`, its peaks are bounds.
#pragma once

#include <cstdint>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// The most bytes that PyTorch's caching allocator reserves for tensors with a peak of `tensors`
// bytes. The bound is empirical, since best fit can waste more in theory: the largest ratio in the
// replays of workloads/paper-454 is 1.675. The constant covers small models, whose segments of
// 2 and 20 MiB are larger than their tensors (tests/answer/bounded.cpp).
constexpr std::int64_t reserved_by_tensors(std::int64_t tensors) {
  constexpr std::int64_t percent = 170, small_segments = std::int64_t{256} << 20;
  return tensors / 100 * percent + small_segments;
}

// REQUIRES: as `evaluate`.
Answer evaluate_bounded(const CheckedPlan& plan);

}  // namespace sim::answer
