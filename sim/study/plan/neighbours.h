// neighbours.h — what is near the best plan, and why it is not better: plans that differ from it in
// one decision, each replayed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"

namespace sim::planner {

struct Neighbour {
  std::string change;  // "tp=4", "zero=1"
  Replayed replayed;
  std::string why;  // what it loses by: "out of memory", "compute takes 0.42 s more"
};

// In the order of the settings. Plans that the space does not have are left out. `best` is one of
// the space; `go_on` as for find_best.
std::vector<Neighbour> neighbours(const Space& space, answer::Sites& sites, const Wanted& wanted,
                                  const Replayed& best, const std::function<bool()>& go_on);

// The points of `replayed` that none beats in both time and reserved memory, the fastest first.
std::vector<Replayed> front(const std::vector<Replayed>& replayed);

}  // namespace sim::planner
