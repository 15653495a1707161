// job_view.h — facts of a job that both engines use: accounts of waits, number of steps, report.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/engine/rank/queues.h"
#include "sim/engine/rank/rank_memory.h"
#include "sim/engine/replay.h"

namespace sim::engine {

// The account of a pipeline wait in a pass: imbalance in the steady phase, else fill and drain.
inline Account waiting_account(const program::Pass& pass) {
  return pass.steady ? Account::pp_imbalance : Account::pp_fill_drain;
}

// The account of a kernel with these flags.
inline Account kernel_account(std::uint8_t flags) {
  return flags & program::optimizer_work ? Account::optimizer : Account::compute;
}

// Number of steps after set-up. If ranks do not synchronize at the end of a step, they drift apart
// in the first steps: two more steps reach the steady state.
inline int steps_to_play(const program::Job& job, const Options& options) {
  return options.steps + (job.ends_together ? 0 : 2);
}
// The pipeline stage of each rank class.
std::vector<int> stages_of(const program::Job& job);
// The most steps, if no earlier one is steady.
inline int most_steps_to_play(const program::Job& job, const Options& options) {
  return std::max(options.steps, options.most_steps) + (job.ends_together ? 0 : 2);
}
// Adds the rest of a step of length `step` to pp_fill_drain: a rank with a shorter step waits for
// the others in the next one.
void fill_up(Accounts& accounts, Duration step);

// Fills all fields of a report that do not depend on the engine.
void describe(const program::Job& job, RunReport& report);

// Ends the replay: the ranks wait for each other. `positions`: where each class waits, by class;
// `done`: by class, whether nothing of it is open.
[[noreturn]] void end_in_deadlock(const program::Job& job, const std::vector<Position>& positions,
                                  const std::vector<bool>& done);

// Device memory of a class that is left for the caching allocator; never negative.
Bytes capacity(const Memory& memory, std::size_t rank_class);

}  // namespace sim::engine
