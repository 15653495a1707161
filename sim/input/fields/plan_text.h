// plan_text.h — fields of a plan whose text is read: slices of a sequence, microbatches of
// replicas, choices of layers, names of codecs.
#pragma once

#include <vector>

#include "sim/input/resolve/resolve.h"

namespace sim::input {

void read_words(const rehearse::v1::Plan& from, program::Plan& to,
                std::vector<PlanProblem>& problems);

}  // namespace sim::input
