// whatif_bound.h — explains why a changed setting of a cluster may not change the step time:
// another part is the bottleneck, or compute hides the changed part. The command `whatif` calls it
// for each variant that ran.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/site.h"
#include "sim/output/documents/whatif_document.h"

namespace sim::study {

// A clause such as "NVLS does not exist on A100-SXM4-80GB"; "" if no rule applies. `row` is the row
// of the variant; its `links` are filled. `gpus`: of the job.
std::string why_unchanged(const std::vector<std::string>& settings, const answer::Site& site,
                          const output::WhatifRow& row, int gpus);

// Says that a fabric without hashed flows spreads traffic evenly, for a variant that sets its
// oversubscription; "" for others.
std::string spreading_note(const std::vector<std::string>& settings, const answer::Site& site);

}  // namespace sim::study
