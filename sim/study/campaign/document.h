// document.h — the results of a campaign as a document: the answer, the spread over seeds, lost
// time, the first seed's timeline, and save intervals.
#pragma once

#include "sim/output/document.h"
#include "sim/study/campaign/run.h"

namespace sim::campaign {

// `timeline` belongs to the first seed.
output::Document document(const Summary& summary, const Built& built,
                          const std::vector<Slice>& timeline);

}  // namespace sim::campaign
