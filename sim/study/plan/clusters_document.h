// clusters_document.h — the best plan of each of several clusters, as one table.
//
// The command `plan` calls it if its question names several clusters. Each was searched alone.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/run_cost.h"
#include "sim/output/document.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

struct BestOfCluster {
  std::string cluster;
  std::string problem = {};  // why it has no plan; "": it has one
  answer::CostBasis cost = {};
  // Of the best plan.
  Replayed best = {};
  int gpus = 0;
  std::string settings = {};  // of `run`
};

// Sets `best`, or `problem` if no plan was found.
void read_best(const Space& space, const Outcome& outcome, BestOfCluster& found);

output::Document clusters_document(const std::string& job, const std::vector<BestOfCluster>& found);

}  // namespace sim::planner
