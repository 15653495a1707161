// shard.h — what the commands share that many machines run: their share of the work, how many
// processes do it here, and the words that start it again.
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

// --shard and --jobs; declares them.
void declare_shard(Options& options);

struct Share {
  std::optional<study::Shard> shard;  // none: all of the work
  bool of_step = false;  // not asked for: one of the processes that srun or mpirun started
  std::unique_ptr<study::Ranks> ranks;  // of an MPI job that takes the work in turns
  int workers = 1;
};
// Stops when --shard or --jobs cannot be understood. `in_turns`: the command can hand its work out
// over MPI; else the processes of an MPI job have fixed shares.
Share share_of(const Options& options, bool in_turns = true);

// The folder in which the share is kept; its shard.json is written or compared. Stops when the
// folder holds other work, unless that is to be overwritten.
std::string prepare(const std::string& folder, const study::Manifest& manifest, bool overwrite);

// Writes shards that were put together, and prints what one machine would have printed.
void print_merged(const study::Merged& merged, const std::string& into, const Globals& globals);

// The same for the records of `validate`: predictions.csv, and the text.
void print_validation(const std::vector<std::string>& lines, const std::string& into,
                      const Globals& globals);

// Stops where a folder for the answers of `plan` holds what a sweep found.
void keep_sweep(const std::string& folder);
// The same for the answers of `plan`: plan.json, results.csv and the text.
void print_plan(const study::Merged& merged, const std::string& into, const Globals& globals);

// Of several processes that end their shares of one folder, the last puts them together.
void merge_when_last(const std::string& folder, const study::Shard& shard, const Globals& globals);

}  // namespace sim::command
