// verdict.h — confidence of the fit outcome: replays at both ends of the range of unexplained
// memory.
//
// `evaluate` calls it once for each answer that shows a verdict. Memory outside the allocator is
// known within a range (cluster/device/profile.h, `unexplained`).
#pragma once

#include "sim/answer/answer.h"
#include "sim/engine/replay.h"
#include "sim/program/build/build.h"

namespace sim::answer {

// Runs at most one further replay. It runs none if the range cannot change the outcome. A replay
// that never reserves more than the smaller capacity is the same at that capacity. REQUIRES:
// `answer.run` is the replay of `job` with `memory` and `options`.
answer::Verdict verdict(const answer::Answer& answer, const program::Job& job,
                        const engine::Times& times, const engine::Memory& memory,
                        const engine::Options& options);

}  // namespace sim::answer
