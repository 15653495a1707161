// align.h — assigns kernels of a trace to operations of a program, by order, family, purpose and
// duration. The function match() calls it for each queue.
//
// Both are sequences of one queue. An operation takes one kernel or up to `longest_group`
// consecutive ones: casts, split-k sums, pieces. A kernel here is a library call (calls.h). The
// result is the assignment in order with the highest score. Equal families and purposes and similar
// durations add to the score. Operations and kernels left over subtract from it, long kernels more
// (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with groups on one side). Memory is linear
// (Hirschberg, CACM 18, 1975). The search stays in a band around the diagonal that products,
// attention and collectives give. The band doubles until the path does not touch its edge.
//
// Invariants
// (1) A kernel belongs to at most one operation, in order. Kernels of one operation are neighbours.
// (2) An operation's kernels include one of its own family, or of a family that can replace it.
//     None of them has a purpose that contradicts the operation's.
// (3) The same inputs give the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/calibrate/readers/kernel_family.h"
#include "sim/calibrate/trace/purpose.h"

namespace sim::calibrate {

constexpr int longest_group = 4;

struct AlignItem {
  KernelFamily family = KernelFamily::other;
  std::int64_t nanoseconds = 0;
  Purposes purposes = 0;
};

// Relation of a kernel's family to an operation's.
enum class Relation : std::uint8_t { none, companion, alike, same };
Relation relation(KernelFamily operation, KernelFamily kernel);

// For each kernel the index of its operation, or -1.
std::vector<std::int32_t> align(std::span<const AlignItem> operations,
                                std::span<const AlignItem> kernels);

// The score of an assignment, which `align` maximises. For tests.
std::int64_t alignment_score(std::span<const AlignItem> operations,
                             std::span<const AlignItem> kernels,
                             std::span<const std::int32_t> owners);

}  // namespace sim::calibrate
