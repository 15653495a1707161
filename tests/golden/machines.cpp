// machines.cpp — sweeps on many machines with real schedulers, where installed: Slurm on one
// machine (slurm.sh), Open MPI. Without them the test says so.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/golden/program.h"

using golden::grid;
using golden::grid_scratch;
using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {
// By default mpirun refuses to run as root and to start more processes than cores.
const std::string mpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n ";

bool installed(const std::string& programs, const std::string& folder) {
  const std::string missing =
      run("for p in " + programs + "; do command -v $p >/dev/null || echo $p; done", folder).out;
  if (!missing.empty()) WARN("not tested here, not installed: " << missing);
  return missing.empty();
}

void same_results(const std::string& folder, const std::string& one, const std::string& other) {
  for (const char* file : {"/results.jsonl", "/results.csv"}) {
    INFO(file);
    CHECK(text_of(folder + "/" + one + file) == text_of(folder + "/" + other + file));
  }
}

// A Slurm that stops at the end of the test.
struct Slurm {
  explicit Slurm(const std::string& scratch_folder) : folder(scratch_folder + "/slurm") {
    const int port = 20000 + static_cast<int>(::getpid() % 20000);
    started = run("bash " REHEARSE_SOURCE_DIR "/tests/golden/slurm.sh up " + folder + " " +
                      std::to_string(port),
                  scratch_folder);
    ::setenv("SLURM_CONF", (folder + "/slurm.conf").c_str(), 1);
  }
  ~Slurm() {
    run("bash " REHEARSE_SOURCE_DIR "/tests/golden/slurm.sh down " + folder, folder);
    ::unsetenv("SLURM_CONF");
  }
  std::string folder;
  golden::Finished started;
};

// Waits until no job is left, for a minute at most.
bool drained(const std::string& folder) {
  for (int i = 0; i < 600; ++i) {
    if (run("squeue -h", folder).out.empty()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}
}  // namespace

TEST_CASE("golden: a sweep by mpirun is that of one process, in turns and by fixed shares") {
  const std::string folder = grid_scratch("mpi");
  if (!installed("mpirun", folder)) return;
  const golden::Finished one = run("./rehearse sweep " + grid + " -o whole -q", folder);
  for (const char* processes : {"2", "4"}) {
    const std::string out = std::string("turns") + processes;
    const golden::Finished turns =
        run(mpirun + processes + " ./rehearse sweep " + grid + " -q -o " + out, folder);
    INFO(turns.err);
    CHECK(turns.code == 0);
    CHECK(turns.out == one.out);
    same_results(folder, "whole", out);
  }
  const golden::Finished shares =
      run("REHEARSE_MPI=none " + mpirun + "3 ./rehearse sweep " + grid + " -q -o shares", folder);
  INFO(shares.err);
  CHECK(shares.code == 0);
  CHECK(shares.out == one.out);
  CHECK(fs::exists(folder + "/shares/shard-0003-of-0003"));
  same_results(folder, "whole", "shares");
}

TEST_CASE("golden: an array of a real Slurm and its merge leave the bytes of one machine") {
  const std::string folder = grid_scratch("slurm");
  if (!installed("sbatch squeue srun slurmctld slurmd munged", folder)) return;
  const golden::Finished one = run("./rehearse sweep " + grid + " -o whole -q", folder);
  const Slurm slurm(folder);
  INFO(slurm.started.err);
  REQUIRE(slurm.started.code == 0);
  const golden::Finished array =
      run("REHEARSE=$PWD/rehearse SBATCH_OPTIONS=--mem=100 sh workloads/jobs/slurm.sh $PWD/" +
              grid + " $PWD/array 4",
          folder);
  INFO(array.err);
  REQUIRE(array.code == 0);
  REQUIRE(drained(folder));
  INFO(text_of(folder + "/array-merge.log"));
  CHECK(fs::exists(folder + "/array/shard-0004-of-0004"));
  same_results(folder, "whole", "array");

  const golden::Finished step =
      run("srun -n4 --mem=400 ./rehearse sweep $PWD/" + grid + " -q -o step", folder);
  INFO(step.err);
  CHECK(step.code == 0);
  CHECK(step.out == one.out);
  same_results(folder, "whole", "step");
}
