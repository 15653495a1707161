// verdict.h — how sure it is that a plan fits: the replay at both ends of what memory outside the
// allocator may be.
#pragma once

#include "sim/answer/answer.h"
#include "sim/engine/replay.h"
#include "sim/program/build/build.h"

namespace sim::answer {

// `answer` holds the replay of `job` within `memory` by `options`. At most one further replay, and
// none where the range cannot change the outcome: a replay that never reserves more than the
// smaller capacity would be the same one there.
answer::Verdict verdict(const answer::Answer& answer, const program::Job& job,
                        const engine::Times& times, const engine::Memory& memory,
                        const engine::Options& options);

}  // namespace sim::answer
