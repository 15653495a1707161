// job_view.h — what both engines read of a job: who takes part in what.
#pragma once

#include <vector>

#include "sim/engine/rank/queues.h"
#include "sim/engine/replay.h"

namespace sim::engine {

// Pipeline wait in a pass: between unequal stages, or while the pipeline fills or drains.
inline Account waiting_account(const program::Pass& pass) {
  return pass.steady ? Account::pp_imbalance : Account::pp_fill_drain;
}

inline Account kernel_account(std::uint8_t flags) {
  return flags & program::optimizer_work ? Account::optimizer : Account::compute;
}

// Steps behind set-up. Ranks that do not meet at the end of a step drift apart in the first ones.
inline int steps_to_play(const program::Job& job, const Options& options) {
  return options.steps + (job.ends_together ? 0 : 2);
}
// A rank whose step is shorter than the longest waits for others in the next one.
void fill_up(Accounts& accounts, Duration step);

// Fills everything of a report that does not depend on the engine.
void describe(const program::Job& job, RunReport& report);

// Bytes left for the caching allocator of a class.
Bytes capacity(const Memory& memory, std::size_t rank_class);

}  // namespace sim::engine
