// constraints.h — what a plan would gain if one constraint of its job were lifted: the memory of a
// GPU, the GPUs that share NVLink, the sequences of a step (`rehearse plan --constraints`). If no
// plan fits: which setting to lift.
//
// Each answer is a search of its own, with twice the constrained size. Throughputs are compared,
// because a step of twice the batch is longer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

struct Lifted {
  std::string constraint;   // "memory of a GPU"
  std::string change;       // "158.4 GiB instead of 79.20 GiB"
  double tokens_s_gpu = 0;  // of the best plan then; 0: none was found
  std::string plan;         // its settings, or why there is none
};

// `space` is that of the question. Stops between searches when `go_on` returns false.
std::vector<Lifted> lifted_constraints(const Question& question, const Space& space,
                                       answer::Sites& sites, const Wanted& wanted,
                                       const std::function<bool(const Progress&)>& go_on);

// If no plan fits: what helps, with the best plan then, one line each. Tried are no headroom,
// settings that save memory, the removal of each setting, and at last more GPUs.
std::vector<std::string> relaxed(const Question& question, answer::Sites& sites, Wanted wanted,
                                 const std::function<bool(const Progress&)>& go_on);

}  // namespace sim::planner
