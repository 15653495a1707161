// shards.h — seeds simulated in several places: outcomes as lines, and back.
//
// Invariant: the shards of a campaign, merged, give the outcomes of all seeds at once, bit for bit:
// lines hold whole nanoseconds and end with their checksum, as records of a sweep do
// (sim/study/sweep/records.h). Lines of another campaign, and changed ones, are refused.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/study/campaign/job.h"

namespace sim::campaign {

// Seeds of shard `number` (from 1) of `of`: a run of neighbours.
struct SeedRange {
  std::uint64_t first = 1;
  int count = 0;
};
SeedRange shard(SeedRange all, int number, int of);

// A first line that names the campaign, then one per seed.
std::string lines_of(const Spec& spec, SeedRange seeds, const std::vector<Outcome>& outcomes);

// The outcomes of all seeds in order. Refused: a line of another campaign or that is not as it was
// written, a seed twice or missing.
Result<std::vector<Outcome>> merged(const Spec& spec, SeedRange all,
                                    const std::vector<std::string>& paths);

}  // namespace sim::campaign
