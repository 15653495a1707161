// microbatch_balance.h — divides the microbatches of a step over data-parallel replicas with
// unequal GPUs.
//
// resolve_balanced.h calls `balance_microbatches` for plans with replica_microbatches: balanced. A
// replica with n microbatches takes fill + n pace + tail:
//
//     pace   forward and backward of one microbatch on the replica's slowest stage
//     fill   the other stages before and after it, while the pipeline fills and drains
//     tail   its own waits for gradients and parameters
//
// Each microbatch goes to the replica that would finish it first. No other division ends earlier:
// it would take a microbatch from the replica that finishes last. Then another replica has one more
// than here and finishes at least as late. The sum of the microbatches never changes. The replay
// decides between the even division and the balanced ones.
//
// Source: the division in proportion to speed follows Whale (Jia et al., USENIX ATC 2022, section
// 3.3) and Metis (Um et al., USENIX ATC 2024, section 3.2). They take speeds from profiles. Here
// speeds come from the plan's own passes, corrected by its replays.
#pragma once

#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Times of a replica in seconds; see the file comment.
struct ReplicaTime {
  double fill = 0, pace = 0, tail = 0;
  double with(int microbatches) const { return fill + microbatches * pace + tail; }
};

// Numbers of microbatches that a schedule accepts: `least` plus multiples of `step`.
struct Grain {
  int least = 1, step = 1;
};

// Microbatches of each replica. REQUIRES: `total` is `least` for every replica plus a multiple of
// `step`.
std::vector<int> microbatch_balance(const std::vector<ReplicaTime>& replicas, int total,
                                    Grain grain = {});

// Fills `replica_microbatches` of a plan that asks for balanced ones. Other plans are returned
// unchanged. The replay chooses the fastest division that fits, the even one included.
CheckedPlan balance_microbatches(const CheckedPlan& plan);

}  // namespace sim::answer
