// verdict.h — how sure it is that a plan fits: the replay at both ends of what memory outside the
// allocator may be.
#pragma once

#include "sim/replay/replay.h"
#include "sim/report/answer.h"
#include "sim/workload/build.h"

namespace sim::search {

// `answer` holds the replay of `job` within `memory` by `options`. At most one further replay, and
// none where the range cannot change the outcome: a replay that never reserves more than the
// smaller capacity would be the same one there.
report::Verdict verdict(const report::Answer& answer, const workload::Job& job,
                        const replay::Times& times, const replay::Memory& memory,
                        const replay::Options& options);

}  // namespace sim::search
