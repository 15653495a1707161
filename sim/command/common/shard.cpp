#include "sim/command/common/shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sim/base/cores.h"
#include "sim/output/json.h"
#include "sim/study/sweep/merge.h"

namespace sim::command {

namespace fs = std::filesystem;

void declare_shard(Options& options) {
  options
      .value("shard", "I/N",
             "only the I-th of N shares (from 1), kept in a folder of its own under FOLDER; auto: "
             "from Slurm, Grid Engine or MPI; auto/N: from PBS; `rehearse merge` puts them "
             "together")
      .value("jobs,j", "N",
             "worker processes (default: the cores; 1 in each process of srun or mpirun)");
}

Share share_of(const Options& options, bool in_turns) {
  const study::Environment environment = [](const char* name) { return std::getenv(name); };
  Share share;
  if (options.has("shard")) {
    share.shard = need(study::read_shard(options.text("shard"), environment));
  } else if (in_turns) {
    share.ranks = study::open_ranks(environment);
  }
  if (!options.has("shard") && share.ranks == nullptr) {
    share.shard = study::step_shard(environment);
    share.of_step = share.shard.has_value();
  }
  const bool in_step = study::step_shard(environment).has_value();
  share.workers = jobs_of(options, in_step ? 1 : cores());
  return share;
}

std::string prepare(const std::string& folder, const study::Manifest& manifest, bool overwrite) {
  const std::string own = study::shard_folder(folder, manifest.shard);
  const std::string other = study::other_work(own, manifest);
  if (!other.empty() && !overwrite) {
    throw Stop{exit_data, other + "; start over with --overwrite"};
  }
  const std::string problem = study::write_manifest(own, manifest);
  if (!problem.empty()) throw Stop{exit_io, problem};
  return own;
}

void merge_when_last(const std::string& folder, const study::Shard& shard, const Globals& globals) {
  const std::string lock = folder + "/merge.lock";
  const int descriptor = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return;
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code error;
  const auto merged = fs::last_write_time(folder + "/results.csv", error);
  const bool there = !error;
  const auto own =
      fs::last_write_time(study::shard_folder(folder, shard) + "/results.jsonl", error);
  const bool done_by_another = there && !error && merged > own;
  if (!done_by_another) {
    const Result<study::Merged> all = study::merge({folder}, shard.of);
    if (all) print_merged(*all, folder, globals);
  }
  ::close(descriptor);
}

}  // namespace sim::command
