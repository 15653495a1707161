// refine.h — the best few plans once more, with what is no part of the space: their layers where
// the times of their own blocks ask for them (answer/balance.h), and their nodes where the links
// between them do (study/tune/place.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"

namespace sim::planner {

struct Refined {
  std::size_t rank = 0;  // of the plan in Outcome::best
  std::string settings;  // as Space::words
  Replayed replayed;
};

// Those that become faster and fit, by their replay; at most one of each plan. Layers stay where
// there are no stages or where their split was asked for, nodes where their order was or where all
// links are alike. `go_on` as for find_best.
std::vector<Refined> refined(const Space& space, answer::Sites& sites, const Wanted& wanted,
                             const std::vector<Replayed>& best, const std::function<bool()>& go_on);

}  // namespace sim::planner
