// neighbours.h — replays plans that differ from the best plan in one decision, and explains why
// they are worse. The command `plan` shows them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"

namespace sim::planner {

struct Neighbour {
  std::string change;  // "tp=4", "zero=1"
  Replayed replayed;
  std::string why;  // why it is worse: "out of memory", "compute takes 0.42 s more"
};

// Neighbours in the order of the settings, without plans outside of the space. REQUIRES: `best` is
// in the space. `go_on` works as in find_best.
std::vector<Neighbour> neighbours(const Space& space, answer::Sites& sites, const Wanted& wanted,
                                  const Replayed& best, const std::function<bool()>& go_on);

// The settings of `all` that are not in `plain`, both separated by blanks.
std::string added_words(const std::string& plain, const std::string& all);

// The Pareto front of `replayed` in time and reserved memory, fastest first.
std::vector<Replayed> front(const std::vector<Replayed>& replayed);

}  // namespace sim::planner
