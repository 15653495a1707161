// document.h — the result of a search as a document and as JSON: plans, front, neighbours, counts
// of discarded plans, launch files.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/run_cost.h"
#include "sim/output/document.h"
#include "sim/study/plan/constraints.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "sim/study/plan/neighbours.h"
#include "sim/study/plan/own_plan.h"
#include "sim/study/plan/refine.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

struct SearchReport {
  const Space& space;
  const Outcome& outcome;
  const Wanted& wanted;
  std::string model, cluster;
  answer::CostBasis cost;
  std::vector<Neighbour> neighbours;  // of the best plan
  std::vector<LaunchText> launches;   // for the plan to launch
  std::string launched;  // settings of the plan to launch: the best plan or its refined form
  std::vector<Refined> refined;      // refined forms of the best few plans
  std::vector<std::string> relaxed;  // no plan fits: a setting whose removal helps, and the result
  std::vector<Lifted> lifted;        // with --constraints: the one worth most first
  const OwnPlan* own = nullptr;      // the plan that the search starts from
};

// The refined form that is launched in the place of the best plan; nullptr: the best plan itself.
// REQUIRES: a plan was found.
const Refined* launched_form(const SearchReport& said);
// The index in Outcome::best of the plan that is launched, refined or not.
std::size_t launched_rank(const SearchReport& said);

// The fastest plans of `replayed` that fit: what a search has found so far.
output::Json found(const Space& space, const std::vector<Replayed>& replayed);

output::Document document(const SearchReport& said);
output::Json to_json(const SearchReport& said);

}  // namespace sim::planner
