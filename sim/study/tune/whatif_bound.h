// whatif_bound.h — why a changed setting of a cluster may change nothing: another part bounds.
// whatif.cpp asks it for each variant that ran.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/site.h"
#include "sim/output/documents/whatif_document.h"

namespace sim::study {

// A clause such as "NVLS does not exist on A100-SXM4-80GB"; "" if no rule applies. `row` is the
// variant's own, with its links.
std::string why_unchanged(const std::vector<std::string>& settings, const answer::Site& site,
                          const output::WhatifRow& row);

}  // namespace sim::study
