// half_written.cpp — a command that is killed leaves the old file or the whole new one under the
// name that it was given, never a part.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/golden/program.h"

using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {

struct Writer {
  std::string command;
  std::vector<std::string> files;
};

// One command for each file that the program writes; "@" is the name of the file.
const std::vector<Writer> writers = {
    {"./rehearse run llama-2-7b-64 global_batch=64 --trace @", {"out"}},
    {"./rehearse run llama-2-7b-64 global_batch=64 --memory-snapshot @", {"out"}},
    {"./rehearse run llama-2-7b-64 global_batch=64 --memory-plot @", {"out"}},
    {"./rehearse report llama-2-7b-64 global_batch=64 -o @", {"out"}},
    {"./rehearse whatif llama-2-7b-64 global_batch=64 --vary tp=1,2 --report @", {"out"}},
    {"./rehearse campaign --step-time 10 --gpus 64 --mtbf 3h --checkpoint-write 60s --seeds 3 "
     "--timeline @",
     {"out"}},
    {"./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 "
     "tp=1,2 --csv @",
     {"out"}},
    {"./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16 --sequence 4096 zero=1 "
     "schedule=1f1b recompute=none --overwrite -o @",
     {"out/plan.json", "out/results.csv"}},
    {"./rehearse merge shards -o @ --overwrite", {"out/results.csv", "out/results.jsonl"}},
    {"./rehearse validate calibration/measured/training_runs.csv --where "
     "source_group=narayanan2021-table1 --report @",
     {"out"}},
    {"./rehearse calibrate calibration/measured/nccl.csv --profile a100-80 -o @", {"out"}},
    {"./rehearse schedule 1f1b --stages 8 --microbatches 64 --svg @", {"out"}},
    {"./rehearse topo export dgx-h100 -o @", {"out"}},
};

double seconds_of(const std::string& command, const std::string& folder) {
  const auto began = std::chrono::steady_clock::now();
  const golden::Finished done = run(command, folder);
  INFO(command << "\n" << done.err);
  REQUIRE((done.code == 0 || done.code == 2));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void kill_each(const std::string& name, int kills) {
  const std::string folder = golden::scratch(name);
  for (int shard = 1; shard <= 2; ++shard)
    REQUIRE(run(fmt::format("./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 "
                            "global_batch=32 sequence=4096 tp=1,2,4 -o shards --shard {}/2 -q",
                            shard),
                folder)
                .code == 0);
  for (const Writer& writer : writers) {
    std::string command = writer.command + " -q >/dev/null";
    command.replace(command.find('@'), 1, "out");
    fs::remove_all(folder + "/out");
    const double whole_s = seconds_of(command, folder);
    std::vector<std::string> whole;
    for (const std::string& file : writer.files) {
      INFO(command << " writes " << file);
      whole.push_back(text_of(folder + "/" + file));
      REQUIRE(!whole.back().empty());
    }
    for (int i = 0; i < kills; ++i) {
      for (const std::string& file : writer.files) golden::write(folder + "/" + file, "old\n");
      run(fmt::format("timeout -s KILL {:.4f} {}", whole_s * (i + 1) / (kills + 1), command),
          folder);
      for (std::size_t f = 0; f < whole.size(); ++f) {
        const std::string path = folder + "/" + writer.files[f];
        const std::string left = fs::exists(path) ? text_of(path) : "old\n";
        INFO(command << ": kill " << i << " left " << left.size() << " of " << whole[f].size()
                     << " bytes in " << writer.files[f]);
        CHECK((left == "old\n" || left == whole[f]));
      }
    }
  }
}

}  // namespace

TEST_CASE("golden: a killed command leaves whole files, a sample of kills") {
  kill_each("half-written", 2);
}

TEST_CASE("golden: sixty kills of each command that writes leave no half-written file",
          "[.campaign]") {
  kill_each("half-written-60", 60);
}
