// plan_words.h — fields of a plan whose text is read: slices of a sequence, microbatches of
// replicas, choices of layers, names of codecs.
#pragma once

#include <vector>

#include "sim/config/resolve.h"

namespace sim::config {

void read_words(const rehearse::v1::Plan& from, workload::Plan& to,
                std::vector<PlanProblem>& problems);

}  // namespace sim::config
