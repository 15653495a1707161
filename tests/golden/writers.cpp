#include "tests/golden/writers.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "tests/golden/program.h"

namespace golden {
namespace fs = std::filesystem;

const std::vector<Writer>& writers() {
  static const std::string plan = "llama-2-7b-64 global_batch=64 ";
  static const std::string points =
      "model=llama-2-7b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 tp=1,2 ";
  static const std::string rows =
      "calibration/measured/training_runs.csv --where source_group=narayanan2021-table1 ";
  static const std::string failures =
      "campaign --step-time 10 --gpus 64 --mtbf 3h --checkpoint-write 60s --seeds 3 ";
  static const std::vector<Writer> all = [] {
    const std::vector<Writer> commands = {
        {"run " + plan + "--trace out", {"out"}},
        {"run " + plan + "--trace out.json.gz", {"out.json.gz"}},
        {"run " + plan + "--memory-snapshot out", {"out"}},
        {"run " + plan + "--memory-plot out", {"out"}},
        {"run " + plan + "--report out", {"out"}},
        {"report " + plan + "-o out", {"out"}},
        {"report shards/shard-0001-of-0002 -o out", {"out"}},
        {"whatif " + plan + "--vary tp=1,2 --report out", {"out"}},
        {failures + "--timeline out", {"out"}},
        {failures + "--report out", {"out"}},
        {failures + "--shard 1/2 -o out --overwrite", {"out"}},
        {"sweep " + points + "--csv out", {"out"}},
        {"sweep " + points + "-o out --overwrite", {"out/results.csv", "out/results.jsonl"}},
        {"plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16 --sequence 4096 zero=1 schedule=1f1b "
         "recompute=none --overwrite -o out",
         {"out/plan.json", "out/results.csv", "out/launch.sh"}},
        {"merge shards -o out --overwrite", {"out/results.csv", "out/results.jsonl"}},
        {"validate " + rows + "--report out", {"out"}},
        {"validate " + rows + "--csv out", {"out"}},
        {"validate " + rows + "--residuals out", {"out"}, true},
        {"validate " + rows + "--shard 1/2 -o out --overwrite",
         {"out/shard-0001-of-0002/results.jsonl"}},
        {"calibrate calibration/measured/nccl.csv --profile a100-80 -o out", {"out"}},
        {"calibrate calibration/example_runs.csv --cluster grand-teton-h100 -o out "
         "--cluster-file out2",
         {"out", "out2"}},
        {"capture llama-2-7b-64 --overwrite -o out", {"out"}},
        {"init plan out --overwrite", {"out"}},
        {"man -o out --overwrite", {"out/rehearse.1", "out/rehearse-run.1"}},
        {"schedule 1f1b --stages 8 --microbatches 64 --svg out", {"out"}},
        {"topo export dgx-h100 -o out", {"out"}},
    };
    std::vector<Writer> made;
    for (const Writer& one : commands)
      made.push_back({"./rehearse " + one.command + " -q", one.files, one.only_new});
    return made;
  }();
  return all;
}

std::string writers_scratch(const std::string& name) {
  std::string folder = scratch(name);
  for (int shard = 1; shard <= 2; ++shard) {
    const Finished made =
        run(fmt::format("./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 "
                        "global_batch=32 sequence=4096 tp=1,2,4 -o shards --shard {}/2 -q",
                        shard),
            folder);
    INFO(made.err);
    REQUIRE(made.code == 0);
  }
  return folder;
}

void place_old(const Writer& writer, const std::string& folder) {
  std::vector<fs::path> left;  // also temporary files of a command that was killed
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("out")) left.push_back(entry.path());
  for (const fs::path& path : left) fs::remove_all(path);
  for (const std::string& file : writer.files) {
    const fs::path path = fs::path(folder) / file;
    fs::create_directories(path.parent_path());
    if (!writer.only_new) write(path.string(), old_text);
  }
}

bool holds_records(const std::string& left, const std::string& whole) {
  std::istringstream lines(left);
  for (std::string line; std::getline(lines, line);) {
    const bool cut = lines.eof() && !left.ends_with('\n');
    const bool old = line + "\n" == old_text;
    if (!old && ("\n" + whole).find("\n" + line + (cut ? "" : "\n")) == std::string::npos)
      return false;
  }
  return true;
}

}  // namespace golden
