// merge.h — merges the shards of several machines into the records that one machine would have
// written.
//
// Invariants
// (1) Records keep the order of the whole work and every byte of their shards.
// (2) Shards are merged only if their fingerprints agree: same work, same version. The merged
//     records have that fingerprint, so none is missing, torn, duplicate or foreign. All problems
//     are reported at once, by shard.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/study/sweep/shard.h"

namespace sim::study {

struct Merged {
  std::string kind;
  std::vector<std::string> arguments;  // of the command
  std::vector<std::string> lines;      // records, without '\n'
};

// Merges shards. `folders` contain shards or are shards. If a shard exists twice, the complete copy
// is used. `of`: use only shards of that count; 0: all shards must have one count.
Result<Merged> merge(const std::vector<std::string>& folders, int of = 0);

// The command that resumes a shard.
std::string resume_command(const Manifest& manifest, const std::string& folder);

// The word with quotes if the shell would split it.
std::string quoted(const std::string& word);

}  // namespace sim::study
