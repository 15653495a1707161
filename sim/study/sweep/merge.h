// merge.h — the shards of many machines become what one machine would have written.
//
// Invariants
//  (1) Records come out in the order of the whole, every byte as its shard wrote it.
//  (2) Shards are put together only when their fingerprints say that they are shards of the same
//      work by the same version, and the records that come out have that fingerprint: nothing is
//      missing, torn, double or foreign. All that is wrong is said at once, by shard.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/study/sweep/shard.h"

namespace sim::study {

struct Merged {
  std::string kind;
  std::vector<std::string> arguments;  // of the command whose work it is
  std::vector<std::string> lines;      // records, without '\n'
};

// `folders` hold shards, or are shards. A shard that is there twice is taken from where it is
// whole. `of`: only shards of that many; 0: all that are there must be of one number.
Result<Merged> merge(const std::vector<std::string>& folders, int of = 0);

// The command that goes on with a shard.
std::string resume_command(const Manifest& manifest, const std::string& folder);

// In quotes where the shell would take it apart.
std::string quoted(const std::string& word);

}  // namespace sim::study
