// document.h — a campaign as a document: the answer, how its seeds differ, where the time went that
// kept nothing, what the first seed did when, and the intervals between saves.
#pragma once

#include "sim/output/document.h"
#include "sim/study/campaign/run.h"

namespace sim::campaign {

// `timeline`: of the first seed.
output::Document document(const Summary& summary, const Built& built,
                          const std::vector<Slice>& timeline);

}  // namespace sim::campaign
