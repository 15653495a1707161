// growth.cpp — the work of an answer grows at most linearly with the job: instructions of whole
// commands, as Valgrind counts them. Times would depend on the machine and on its load.
#include <fmt/format.h>
#include <sched.h>

#include <catch2/catch.hpp>

#include "tests/golden/program.h"

namespace {

// The number of a CPU that this process may use. On one CPU, commands use one thread.
int one_cpu() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) return cpu;
  return 0;
}

// Instructions of a command, in millions; 0: it failed.
double instructions(const std::string& command, const std::string& folder) {
  const golden::Finished done = golden::run(
      fmt::format("taskset -c {} valgrind --tool=callgrind --callgrind-out-file=/dev/null "
                  "./rehearse {} >out",
                  one_cpu(), command),
      folder);
  INFO(done.err);
  REQUIRE(done.code == 0);
  const std::string mark = "Collected : ";
  const std::size_t at = done.err.find(mark);
  REQUIRE(at != std::string::npos);
  return std::stod(done.err.substr(at + mark.size())) * 1e-6;
}

// A setting that doubles twice; everything else stays.
struct Axis {
  const char* name;
  const char* command;  // {0}: the setting, {1}: the setting / 8
  int first;
  double most;  // the second doubling adds at most so many times what the first doubling adds, x 2
};

}  // namespace

TEST_CASE("golden: the work of a run grows at most linearly with the job") {
  if (golden::skipped_when_sanitized("valgrind")) return;
  const std::string folder = golden::scratch("growth");
  if (golden::run("command -v valgrind && command -v taskset", folder).code != 0) {
    WARN("not tested: valgrind is not installed");
    return;
  }
  const std::string llama = "run model=llama-3.1-8b cluster=dgx-h100 sequence=4096 ";
  const std::string experts = "run model=mixtral-8x7b cluster=dgx-h100 sequence=4096 ";
  const Axis axes[] = {
      {"GPUs", "tp=8 gpus={0} cluster.nodes={1} global_batch={1} --memory none", 512, 1.15},
      {"microbatches", "gpus=16 tp=4 pp=4 global_batch={0} --memory none", 256, 1.15},
      {"microbatches with their memory", "gpus=16 tp=4 pp=4 global_batch={0}", 64, 1.15},
      {"layers", "gpus=16 tp=4 pp=4 global_batch=16 architecture.layers={0} --memory none", 32,
       1.15},
      // Each of p stages runs p microbatches until times repeat: the square is small.
      {"stages",
       "gpus={0} cluster.nodes={1} pp={0} global_batch=64 architecture.layers=64 --memory none", 8,
       1.35},
      {"experts",
       "gpus=64 cluster.nodes=8 ep=64 global_batch=64 architecture.num_experts={0} --memory none",
       64, 1.15},
  };
  for (const Axis& axis : axes) {
    const std::string& base = axis.name == std::string("experts") ? experts : llama;
    double counted[3] = {};
    for (int doubled = 0; doubled < 3; ++doubled) {
      const int value = axis.first << doubled;
      const std::string command =
          base + fmt::format(fmt::runtime(axis.command), value, value / 8);
      counted[doubled] = instructions(command, folder);
    }
    INFO(axis.name << " from " << axis.first << ", doubled twice: " << counted[0] << ", "
                   << counted[1] << ", " << counted[2] << " million instructions");
    const double once = counted[1] - counted[0], twice = counted[2] - counted[1];
    CHECK(twice <= 2 * axis.most * once + 1);
  }
}
