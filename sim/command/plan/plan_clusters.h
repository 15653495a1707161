// plan_clusters.h — one question for several clusters: the best plan of each, in one table.
#pragma once

#include <string>
#include <vector>

#include "sim/command/plan/plan_answer.h"

namespace sim::command {

// The names of "dgx-h100,dgx-a100", given as the second word or by --cluster.
std::vector<std::string> clusters_of(const Options& options);

// Searches each cluster and prints the table. Returns the exit code: no, if no cluster has a plan.
int answer_clusters(const PlanArguments& all, const std::vector<std::string>& clusters,
                    const PlanOutput& into, int workers, const Globals& globals);

}  // namespace sim::command
