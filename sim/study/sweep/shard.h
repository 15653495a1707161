// shard.h — one machine's share of work that many machines do: which share, where it is kept, and
// what says that shares belong together.
//
// Invariants
//  (1) Shard I of N has the items I-1, I-1+N, I-1+2N, ...: the shards of a count are disjoint and
//      together are everything, and neighbours in a grid, which take about as long, are spread.
//  (2) A shard's folder says whose it is (shard.json) before it holds the first record. The
//      fingerprint there is a hash of the version and of the identities of all items of all shards,
//      in order: equal fingerprints mean equal work.
//
// Variables of the environment: Slurm (sbatch(1), srun(1)), Grid Engine (qsub(1)), PBS (qsub(1B)),
// Open MPI, MPICH and MVAPICH ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/output/json.h"

namespace sim::study {

constexpr int shards_max = 100'000;

struct Shard {
  int number = 1, of = 1;  // 1 <= number <= of

  friend bool operator==(const Shard&, const Shard&) = default;
};

// How many of `items` the shard has, and which the `index`-th of them is.
std::size_t share(const Shard& shard, std::size_t items);
std::size_t item(const Shard& shard, std::size_t index);

// The value of a variable of the environment, nullptr where there is none.
using Environment = std::function<const char*(const char* name)>;

// "3/8"; "auto": from the environment; "auto/8": from an array whose size the scheduler does not
// tell (PBS).
Result<Shard> read_shard(std::string_view text, const Environment& environment);

// The rank among the processes of one job step (srun, mpirun); none outside of such a step.
std::optional<Shard> step_shard(const Environment& environment);

// "FOLDER/shard-0003-of-0008".
std::string shard_folder(const std::string& folder, const Shard& shard);

// What a shard's folder says about itself.
struct Manifest {
  std::string kind;         // "sweep", "validate", "plan"
  std::string version;      // of the program
  std::string fingerprint;  // of all items
  std::string own;          // of the shard's items
  std::size_t items = 0;    // of all shards
  Shard shard;
  std::vector<std::string> arguments;  // of the command, to go on with it
};

// 16 hex digits of the version, the kind and the identities in order.
std::string fingerprint(const std::string& kind, const std::vector<std::string>& ids);

// Of the shard of `ids`, the identities of all items.
Manifest manifest(const std::string& kind, const std::vector<std::string>& ids, const Shard& shard,
                  const std::vector<std::string>& arguments);

// Writes FOLDER/shard.json, making the folder; "" or what went wrong.
std::string write_manifest(const std::string& folder, const Manifest& manifest);
// Why the folder cannot be gone on with: it is another work's, or unreadable; "": it can, or is
// new.
std::string other_work(const std::string& folder, const Manifest& manifest);

output::Json to_json(const Manifest& manifest);
Result<Manifest> load_manifest(const std::string& path);

}  // namespace sim::study
