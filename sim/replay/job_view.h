// job_view.h — what both engines read of a job: who takes part in what.
#pragma once

#include <vector>

#include "sim/replay/replay.h"

namespace sim::replay {

// Rank classes that meet in one collective of `communicator`, as seen from a class.
std::vector<int> members(const workload::Job& job, workload::Stream communicator, int rank_class);

// The class at the other end of a message.
int peer(const workload::Job& job, int rank_class, int offset);

// Which account exposed time of a communicator belongs to.
Account account_of(workload::Stream communicator);

// Pipeline wait in a pass: between unequal stages, or while the pipeline fills or drains.
inline Account waiting_account(const workload::Pass& pass) {
  return pass.steady ? Account::pp_imbalance : Account::pp_fill_drain;
}

inline Account kernel_account(std::uint8_t flags) {
  return flags & workload::optimizer_work ? Account::optimizer : Account::compute;
}

// Fills everything of a report that does not depend on the engine.
void describe(const workload::Job& job, RunReport& report);

// Bytes left for the caching allocator of a class.
Bytes capacity(const Memory& memory, std::size_t rank_class);

}  // namespace sim::replay
