// document.h — what a search says: the plans, the front, the neighbours, what was cut, what to
// launch; as a document for text and page, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"
#include "sim/study/plan/launch_writer.h"
#include "sim/study/plan/neighbours.h"
#include "sim/study/plan/refine.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

struct Said {
  const Space& space;
  const Outcome& outcome;
  const Wanted& wanted;
  std::string model, cluster;
  double price_per_gpu_hour = 0;      // 0: not said
  std::vector<Neighbour> neighbours;  // of the best
  std::vector<LaunchText> launches;   // of what is to be launched
  std::string launched;               // its settings: the best's, or those it was refined to
  std::vector<Refined> refined;       // of the best few
  std::vector<std::string> relaxed;  // no plan fits: which setting less would do, and what it gives
};

output::Document document(const Said& said);
output::Json to_json(const Said& said);

}  // namespace sim::planner
