// refine.h — improves the best few plans in settings outside of the space: layers per stage by
// block times (answer/balance.h), tensor-parallel messages behind products, and order of nodes by
// link speeds (study/tune/place.h). The command `plan` calls it after the search.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"

namespace sim::planner {

struct Refined {
  std::size_t rank = 0;  // index of the plan in Outcome::best
  std::string settings;  // in the form of Space::words
  Replayed replayed;
};

// Refined plans that fit and are faster in their replay, at most one per plan. Layers keep their
// stages without a pipeline or if the user stated the split. Nodes keep their order if the user
// stated it or if all links are equal. A plan keeps the limits of its framework. `go_on` works as
// in find_best.
std::vector<Refined> refined(const Space& space, answer::Sites& sites, const Wanted& wanted,
                             const std::vector<Replayed>& best, const std::function<bool()>& go_on);

}  // namespace sim::planner
