// shard.h — one machine's share of work: its items, its folder, and the fingerprint that identifies
// the work.
//
// Invariants
// (1) Shard I of N has the items I-1, I-1+N, I-1+2N, ... Shards are disjoint and complete.
//     Neighbours in a grid take similar time and are spread over shards.
// (2) A shard's folder has its description (shard.json) before the first record. Its fingerprint is
//     a hash of the version and of the identities of all items of all shards, in order. Equal
//     fingerprints mean equal work.
//
// Environment variables: Slurm (sbatch(1), srun(1)), Grid Engine (qsub(1)), PBS (qsub(1B)), Open
// MPI, MPICH and MVAPICH ranks.
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

// Number of `items` that the shard has; and the item with the shard's `index`.
std::size_t share(const Shard& shard, std::size_t items);
std::size_t item(const Shard& shard, std::size_t index);

// Value of an environment variable; nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Reads a shard: "3/8"; "auto", from the environment; "auto/8", from an array with unknown size
// (PBS).
Result<Shard> read_shard(std::string_view text, const Environment& environment);

// The rank in a job step (srun, mpirun); std::nullopt outside of one.
std::optional<Shard> step_shard(const Environment& environment);

// "FOLDER/shard-0003-of-0008".
std::string shard_folder(const std::string& folder, const Shard& shard);

// The description in a shard's folder.
struct Manifest {
  std::string kind;         // "sweep", "validate", "plan"
  std::string version;      // of the program
  std::string fingerprint;  // of all items
  std::string own;          // of the shard's items
  std::size_t items = 0;    // of all shards
  Shard shard;
  std::vector<std::string> arguments;  // of the command, to resume it
};

// Hash, as 16 hex digits, of the version, the kind and the identities in order.
std::string fingerprint(const std::string& kind, const std::vector<std::string>& ids);

// The description of a shard; `ids` are the identities of all items.
Manifest manifest(const std::string& kind, const std::vector<std::string>& ids, const Shard& shard,
                  const std::vector<std::string>& arguments);

// Creates the folder and writes FOLDER/shard.json. Returns "" or the error.
std::string write_manifest(const std::string& folder, const Manifest& manifest);
// Reason why the folder cannot be resumed: it belongs to other work or is unreadable; "" if it can.
std::string other_work(const std::string& folder, const Manifest& manifest);

output::Json to_json(const Manifest& manifest);
Result<Manifest> load_manifest(const std::string& path);

}  // namespace sim::study
