// plan_shares.h — one share of a search with --shard: the records that `rehearse merge` joins.
#pragma once

#include "sim/command/common/shard.h"
#include "sim/command/plan/plan_task.h"

namespace sim::command {

// Searches one share. Returns the exit code.
int answer_share(const PlanTask& task, const Options& options, const Share& share,
                 const Globals& globals);

}  // namespace sim::command
