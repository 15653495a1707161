// align.h — which kernels of a trace are which operations of a program, by order and family.
//
// Both are sequences of one queue. Of all ways to give each operation the kernels that follow each
// other for it (one, or up to `longest_group` with casts, sums of slices and pieces; a kernel here
// is a call of a library, calls.h), none out of order, the one with the highest score is taken:
// families and purposes that agree and durations that are alike count for it, operations without a
// kernel and kernels without an operation against it, long ones more (Needleman and Wunsch, J. Mol.
// Biol. 48, 1970, with groups on one side). Memory is linear (Hirschberg, CACM 18, 1975), time is a
// band around where products, attention and collectives say the diagonal is; the band doubles until
// the way does not touch its edge.
//
// Invariants
//  (1) A kernel belongs to at most one operation, in order; kernels of one operation are
//  neighbours. (2) An operation's kernels hold one of its own family, or one that may stand for it;
//  none of them says another purpose than its own. (3) Same inputs, same answer.
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

// How a kernel's family stands to an operation's.
enum class Relation : std::uint8_t { none, companion, alike, same };
Relation relation(KernelFamily operation, KernelFamily kernel);

// For each kernel its operation, -1 where it has none.
std::vector<std::int32_t> align(std::span<const AlignItem> operations,
                                std::span<const AlignItem> kernels);

// The score of such an answer: what `align` makes as high as can be. For tests.
std::int64_t alignment_score(std::span<const AlignItem> operations,
                             std::span<const AlignItem> kernels,
                             std::span<const std::int32_t> owners);

}  // namespace sim::calibrate
