// sweep.cpp — a sweep under kills, full disks, second writers and signals.
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/golden/program.h"

using golden::grid;
using golden::grid_scratch;
using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {
// Starts the sweep, kills its process with `signal` as soon as it has written some records.
std::string killed_after(const std::string& signal, int records, const std::string& options) {
  return "./rehearse sweep " + grid + " -o out " + options +
         " & pid=$!\n"
         "while kill -0 $pid 2>/dev/null; do\n"
         "  n=$(wc -l <out/results.jsonl 2>/dev/null || echo 0)\n"
         "  if [ \"$n\" -ge " +
         std::to_string(records) +
         " ]; then break; fi\n"
         "done\n"
         "kill -" +
         signal + " $pid; wait $pid";
}
}  // namespace

TEST_CASE("golden: a sweep killed with -9 resumes to the bytes of an uninterrupted one") {
  const std::string folder = grid_scratch("kill");
  REQUIRE(run("./rehearse sweep " + grid + " -o whole -j 1", folder).code == 0);
  const std::string jsonl = text_of(folder + "/whole/results.jsonl");
  const std::string csv = text_of(folder + "/whole/results.csv");
  REQUIRE_FALSE(csv.empty());

  run(killed_after("KILL", 30, "-j 2"), folder);
  REQUIRE_FALSE(fs::exists(folder + "/out/results.csv"));
  run(killed_after("KILL", 50, "-j 2 --resume"), folder);
  const golden::Finished last = run("./rehearse sweep " + grid + " -o out --resume", folder);
  CHECK(last.code == 0);
  CHECK(text_of(folder + "/out/results.jsonl") == jsonl);
  CHECK(text_of(folder + "/out/results.csv") == csv);
}

TEST_CASE("golden: an interrupted sweep says how to go on and exits 75") {
  for (const char* signal : {"TERM"}) {
    const std::string folder = grid_scratch("interrupt");
    const golden::Finished finished = run(killed_after(signal, 30, ""), folder);
    INFO(signal << "\n" << finished.err);
    CHECK(finished.code == 75);
    CHECK(finished.err.find("rehearse sweep " + grid + " -o out --resume") != std::string::npos);
    const golden::Finished fresh = run("./rehearse sweep " + grid + " -o out", folder);
    CHECK(fresh.code == 75);  // records are not thrown away by mistake
    CHECK(run("./rehearse sweep " + grid + " -o out --resume", folder).code == 0);
  }
}

TEST_CASE("golden: a second sweep into the same folder is refused") {
  const std::string folder = grid_scratch("second");
  fs::create_directories(folder + "/out");
  golden::write(folder + "/out/results.jsonl", "");
  const golden::Finished finished =
      run("flock out/results.jsonl ./rehearse sweep " + grid + " -o out", folder);
  CHECK(finished.code == 75);
  CHECK(finished.err.find("is being written by another process") != std::string::npos);
}

TEST_CASE("golden: a full disk stops a sweep with 74 and the way to go on") {
  const std::string folder = grid_scratch("full");
  fs::create_directories(folder + "/out");
  fs::create_symlink("/dev/full", folder + "/out/results.jsonl");
  const golden::Finished finished = run("./rehearse sweep " + grid + " -o out", folder);
  CHECK(finished.code == 74);
  CHECK(finished.err.find("out/results.jsonl: No space left on device") != std::string::npos);
  CHECK(finished.err.find("--resume") != std::string::npos);
}

TEST_CASE("golden: a sweep on a small disk goes on once there is space") {
  const std::string folder = grid_scratch("tmpfs");
  const std::string disk = folder + "/out";
  fs::create_directories(disk);
  if (::geteuid() != 0 || ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=32k") != 0) {
    WARN("needs root to mount a small tmpfs: skipped");
    return;
  }
  const golden::Finished full = run("./rehearse sweep " + grid + " -o out", folder);
  const int grown = ::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m");
  const golden::Finished resumed = run("./rehearse sweep " + grid + " -o out --resume", folder);
  const std::string csv = text_of(disk + "/results.csv");
  ::umount(disk.c_str());
  CHECK(grown == 0);
  CHECK(full.code == 74);
  CHECK(resumed.code == 0);
  REQUIRE(run("./rehearse sweep " + grid + " -o whole", folder).code == 0);
  CHECK(csv == text_of(folder + "/whole/results.csv"));
}

TEST_CASE("golden: shards of a sweep, one of them killed and run again, merge to its bytes") {
  const std::string folder = grid_scratch("shards");
  const golden::Finished one = run("./rehearse sweep " + grid + " -o whole -q", folder);
  REQUIRE(one.code == 0);
  const std::string shard = "./rehearse sweep " + grid + " -o many -q -j 1 --shard ";
  for (const char* number : {"1", "2", "4", "5", "6", "7"})
    REQUIRE(run(shard + number + "/8", folder).code == 0);
  // The third shard is killed, the eighth never ran.
  REQUIRE(run(shard + "3/8", folder).code == 0);
  const std::string third = folder + "/many/shard-0003-of-0008/results.jsonl";
  fs::resize_file(third, fs::file_size(third) - 7);
  fs::remove(folder + "/many/shard-0003-of-0008/results.csv");
  const golden::Finished torn = run("./rehearse merge many -o merged", folder);
  INFO(torn.err);
  CHECK(torn.code == 66);
  CHECK(torn.err.find("many: error: of 8 shards 1 is missing: 8") != std::string::npos);
  CHECK(torn.err.find("rehearse sweep grid.textproto --resume -o many --shard 3/8") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(folder + "/merged"));
  REQUIRE(run(shard + "3/8 --resume", folder).code == 0);
  REQUIRE(
      run("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=7 " + shard + "auto",
          folder)
          .code == 0);
  const golden::Finished merged = run("./rehearse merge many -o merged -q", folder);
  INFO(merged.err);
  CHECK(merged.code == 0);
  CHECK(merged.out == one.out);
  for (const char* file : {"/results.jsonl", "/results.csv"})
    CHECK(text_of(folder + "/merged" + file) == text_of(folder + "/whole" + file));
  // A shard of another grid is refused.
  REQUIRE(
      run("./rehearse sweep " + grid + " sequence=1024 -o many --overwrite -q --shard 2/8", folder)
          .code == 0);
  const golden::Finished mixed = run("./rehearse merge many -o merged", folder);
  INFO(mixed.err);
  CHECK(mixed.code == 65);
  CHECK(mixed.err.find("other inputs: fingerprints") != std::string::npos);
}

TEST_CASE("golden: the processes of one job step share a sweep and the last puts it together") {
  const std::string folder = grid_scratch("step");
  const golden::Finished one = run("./rehearse sweep " + grid + " -o whole -q", folder);
  const golden::Finished step =
      run("for rank in 2 0 1; do SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=3 ./rehearse sweep " +
              grid + " -o many -q & done; wait",
          folder);
  INFO(step.err);
  CHECK(step.out == one.out);
  for (const char* file : {"/results.jsonl", "/results.csv"})
    CHECK(text_of(folder + "/many" + file) == text_of(folder + "/whole" + file));
}

TEST_CASE("golden: shards of validate merge to what one machine says") {
  const std::string folder = grid_scratch("validate-shards");
  const std::string what =
      "./rehearse validate calibration/measured/training_runs.csv --where "
      "source_group=narayanan2021-table1 -q ";
  const golden::Finished one = run(what + "--csv one.csv", folder);
  REQUIRE(one.code == 0);
  for (const char* shard : {"1/3", "2/3", "3/3"})
    REQUIRE(run(what + "-o many --shard " + shard, folder).code == 0);
  const golden::Finished merged = run("./rehearse merge many -o whole -q", folder);
  INFO(merged.err);
  CHECK(merged.out == one.out);
  CHECK(text_of(folder + "/whole/predictions.csv") == text_of(folder + "/one.csv"));
}

TEST_CASE("golden: a sweep in words answers as the grid of a file does, and leaves nothing") {
  const std::string folder = grid_scratch("words");
  const std::string words =
      "./rehearse sweep model=llama-2-7b cluster=abci-a gbs=32 seq=2048 gpus=8,16 tp=1,2,3,4 "
      "pp=1,2,4 mbs=1,2,4 ";
  const golden::Finished of_file = run("./rehearse sweep " + grid + " -o whole", folder);
  REQUIRE(of_file.code == 0);
  const std::string before = run("ls", folder).out;
  for (const char* jobs : {"-j 1", "-j 2"}) {
    const golden::Finished of_words = run(words + jobs, folder);
    CHECK(of_words.code == 0);
    CHECK(of_words.out == of_file.out);
  }
  CHECK(run("ls", folder).out == before);
  // The same rows under the model's name; and columns in the order of the question.
  const std::string renamed = "sed 's/llama-2-7b\\//seven\\//; s/,llama-2-7b,llama/,seven,llama/'";
  CHECK(run(words + "-q --csv - | " + renamed, folder).out ==
        text_of(folder + "/whole/results.csv"));
  CHECK(run(words + "-q --csv - --columns tp,outcome | sort -u", folder).out ==
        "1,fits\n1,impossible\n1,oom\n2,fits\n2,oom\n3,impossible\n4,fits\n4,impossible\n"
        "tp,outcome\n");
  CHECK(run(words + "--csv - --json", folder).code == 64);
  CHECK(run(words + "--columns tp", folder).code == 64);
}

TEST_CASE("golden: sweep --pareto names the points that no other beats in time and memory") {
  const std::string folder = grid_scratch("pareto");
  const std::string words =
      "./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=8 global_batch=16 sequence=4096 "
      "zero=1 tp=1,2,4,8 micro_batch=1,2 recompute=none,full ";
  const golden::Finished checked = run(
      words +
          "-q --csv points.csv --pareto --json | python3 -c '\n"
          "import csv, json, sys\n"
          "front = json.load(sys.stdin)[\"result\"][\"front\"]\n"
          "points = [row for row in csv.DictReader(open(\"points.csv\"))\n"
          "          if row[\"outcome\"] == \"fits\"]\n"
          "both = lambda row: (float(row[\"step_time_s\"]), float(row[\"peak_reserved_gib\"]))\n"
          "beats = lambda a, b: a[0] <= b[0] and a[1] <= b[1] and a != b\n"
          "unbeaten = [row[\"point\"] for row in points\n"
          "            if not any(beats(both(other), both(row)) for other in points)]\n"
          "assert sorted(unbeaten) == sorted(row[\"point\"] for row in front), unbeaten\n"
          "assert 1 < len(front) < len(points), len(front)\n'",
      folder);
  INFO(checked.err);
  CHECK(checked.code == 0);
  // A setting that the grid varies is a column of the table of the fastest.
  const std::string text = run(words + "--pareto", folder).out;
  CHECK(text.find("recompute") < text.find("time against memory"));
}

TEST_CASE("golden: a sweep in words with a folder is kept and goes on") {
  const std::string folder = grid_scratch("kept_words");
  const std::string words =
      "./rehearse sweep model=llama-2-7b cluster=abci-a gpus=8 gbs=32 seq=2048 tp=2,4 -o out ";
  REQUIRE(run(words, folder).code == 0);
  const std::string jsonl = text_of(folder + "/out/results.jsonl");
  REQUIRE_FALSE(jsonl.empty());
  REQUIRE(run("rm out/results.csv", folder).code == 0);
  CHECK(run(words, folder).err.find("tp=2,4 -o out --resume") != std::string::npos);
  CHECK(run(words + "--resume --csv table.csv", folder).code == 0);
  CHECK(text_of(folder + "/out/results.jsonl") == jsonl);
  CHECK(text_of(folder + "/table.csv") == text_of(folder + "/out/results.csv"));
}

TEST_CASE("golden: a sweep bounds the peaks of points that no allocator could save, unless asked") {
  const std::string folder = grid_scratch("peaks");
  const std::string words =
      "./rehearse sweep model=llama-2-7b cluster=abci-a gpus=8 gbs=32 seq=2048 tp=1,2 pp=1,2 "
      "mbs=1,2,4 -q --csv - ";
  const golden::Finished bounds = run(words, folder), peaks = run(words + "--peaks", folder);
  REQUIRE(bounds.code == 0);
  REQUIRE(peaks.code == 0);
  CHECK(run(words + "-j 1", folder).out == bounds.out);
  const auto rows = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> a = rows(bounds.out), b = rows(peaks.out);
  REQUIRE(a.size() == b.size());
  int marked = 0, same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i]);
    const std::size_t mark = a[i].find("; the replay ended there: it needs ");
    if (mark == std::string::npos) {
      CHECK(a[i] == b[i]);
      ++same;
      continue;
    }
    ++marked;
    CHECK(a[i].substr(0, mark) == b[i].substr(0, mark));
    CHECK(a[i].substr(0, mark).find(",oom,") != std::string::npos);
  }
  CHECK(marked >= 2);
  CHECK(same >= 4);
  const golden::Finished both = run(words + "--peaks --memory none", folder);
  CHECK(both.code == 64);
  CHECK(both.err.find("--peaks needs exact memory: leave out --memory none") != std::string::npos);
}
