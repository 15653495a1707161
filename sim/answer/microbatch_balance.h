// microbatch_balance.h — how many microbatches of a step each data-parallel replica does where
// their GPUs are unlike, so that none has to wait long for the others.
//
// A replica with n microbatches takes fill + n pace + tail: pace is what its slowest stage takes
// for one, forward and back, fill what the others take before and behind, tail what it waits for
// its own gradients and parameters. One microbatch after another goes to the replica that would be
// done with it first; no other deal ends earlier, for in any one some replica does as many as here
// or more.
//
// The split in proportion to speed is that of Whale (Jia et al., USENIX ATC 2022, section 3.3) and
// Metis (Um et al., USENIX ATC 2024, section 3.2), which take speeds from profiles; here they come
// from the plan's own passes, and are set right by its replays.
#pragma once

#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Seconds of a replica.
struct ReplicaTime {
  double fill = 0, pace = 0, tail = 0;
  double with(int microbatches) const { return fill + microbatches * pace + tail; }
};

// What counts of microbatches a schedule takes: `least`, and by how many more.
struct Grain {
  int least = 1, step = 1;
};

// Microbatches of each replica. REQUIRES: `total` is least of all replicas and whole steps beyond.
std::vector<int> microbatch_balance(const std::vector<ReplicaTime>& replicas, int total,
                                    Grain grain = {});

// The plan with replica_microbatches where it asks for balanced ones, else as it is: of the even
// deal and those that the times of passes and of replays ask for, that which the replay says is the
// fastest of those that fit. REQUIRES: problems(plan, site) is empty.
program::Plan balance_microbatches(const program::Plan& plan, Site& site);

}  // namespace sim::answer
