// plan_clusters.h — one question for several clusters: the best plan of each, in one table.
#pragma once

#include <string>
#include <vector>

#include "sim/command/plan/plan_answer.h"

namespace sim::command {

// A cluster of a list, and the GPUs that a job has there.
struct AskedCluster {
  std::string name;
  std::string gpus;  // of "dgx-h100:1024", as in --gpus; "": those of --gpus
  bool operator==(const AskedCluster&) const = default;
};

// The clusters of "dgx-h100,dgx-a100" or "dgx-h100:1024,dgx-b200:512", given as the second word or
// by --cluster. Empty: the words are one cluster without GPUs, or none.
std::vector<AskedCluster> clusters_of(const Options& options);

// The question with one cluster of the list in place of the list.
PlanArguments of_cluster(const PlanArguments& all, const AskedCluster& cluster, Globals globals);

// Searches each cluster and prints the table. After Ctrl-C it prints what it has found so far.
// Returns the exit code: no, if no cluster has a plan.
int answer_clusters(const PlanArguments& all, const std::vector<AskedCluster>& clusters,
                    const PlanOutput& into, int workers, const Globals& globals);

}  // namespace sim::command
