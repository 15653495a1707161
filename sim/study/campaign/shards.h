// shards.h — seeds simulated on several machines: writes outcomes as lines and reads them back.
//
// Invariant: merged shards give the same outcomes as one machine, bit by bit. Lines hold whole
// nanoseconds and end with a checksum, as records of a sweep do (sim/study/sweep/records.h). Lines
// of another campaign and changed lines are refused.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/study/campaign/job.h"

namespace sim::campaign {

// The seeds of shard `number` (from 1) of `of`: consecutive ones.
struct SeedRange {
  std::uint64_t first = 1;
  int count = 0;
};
SeedRange shard(SeedRange all, int number, int of);

// The shard's text: a first line that identifies the campaign, then one line per seed.
std::string lines_of(const Spec& spec, SeedRange seeds, const std::vector<Outcome>& outcomes);

// The outcomes of all seeds in order. Lines of another campaign, changed lines, and duplicate or
// missing seeds are errors.
Result<std::vector<Outcome>> merged(const Spec& spec, SeedRange all,
                                    const std::vector<std::string>& paths);

}  // namespace sim::campaign
