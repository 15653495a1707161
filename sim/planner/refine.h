// refine.h — the best few plans once more, with their layers where the times of their own blocks
// ask for them (search/balance.h): no part of the space, for it has as many layers in every chunk.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/planner/search.h"

namespace sim::planner {

struct Refined {
  std::size_t rank = 0;  // of the plan in Outcome::best
  std::string settings;  // as Space::words
  Replayed replayed;
};

// Those that become faster and fit. Plans without stages, or whose split was asked for, are left
// alone. `go_on` as for find_best.
std::vector<Refined> refined(const Space& space, search::Sites& sites, const Wanted& wanted,
                             const std::vector<Replayed>& best,
                             const std::function<bool()>& go_on);

}  // namespace sim::planner
