// shard.h — for commands that run on several machines: their share of the work, their processes,
// and the command that resumes a share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/command/common/command.h"
#include "sim/study/sweep/merge.h"
#include "sim/study/sweep/ranks.h"
#include "sim/study/sweep/shard.h"

namespace sim::command {

// Declares --shard and --jobs.
void declare_shard(Options& options);

struct Share {
  std::optional<study::Shard> shard;  // std::nullopt: all of the work
  bool of_step = false;  // not from --shard: this is a process that srun or mpirun started
  std::unique_ptr<study::Ranks> ranks;  // ranks of an MPI job that share the work dynamically
  int workers = 1;
};
// Reads --shard and --jobs; stops if they are invalid. `in_turns`: the command supports dynamic
// work over MPI; otherwise MPI processes have fixed shares.
Share share_of(const Options& options, bool in_turns = true);

// The folder of a share. Writes its shard.json or compares it, and stops if the folder has other
// work, unless `overwrite` is set.
std::string prepare(const std::string& folder, const study::Manifest& manifest, bool overwrite);

// Writes merged shards, and prints what one machine would have printed.
void print_merged(const study::Merged& merged, const std::string& into, const Globals& globals);

// The same for records of `validate`: predictions.csv and the text.
void print_validation(const std::vector<std::string>& lines, const std::string& into,
                      const Globals& globals);

// Stops if a folder for answers of `plan` contains results of a sweep.
void keep_sweep(const std::string& folder);
// The same for answers of `plan`: plan.json, results.csv and the text.
void print_plan(const study::Merged& merged, const std::string& into, const Globals& globals);

// Merges all shares of a folder, if this process finished the last one.
void merge_when_last(const std::string& folder, const study::Shard& shard, const Globals& globals);

}  // namespace sim::command
