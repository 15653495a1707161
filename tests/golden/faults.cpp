// faults.cpp — a sweep in which one system call fails, at each call and in every way (fault.h), or
// which is killed. It ends with a message and an exit code.
// --resume then gives the bytes of an undisturbed sweep.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/fault.h"

namespace {

namespace fs = std::filesystem;
using golden::Fault;
using golden::Finished;
using golden::run;
using golden::text_of;

// Two points that fit, one that does not, one that is impossible.
const char* const little = R"(name: "little"
source: "chosen: small, with every outcome"
bases {
  name: "base"
  plan { model: "llama-2-7b" cluster: "abci-a" gpus: 8 global_batch: 16 sequence: 2048 pp: 2 }
}
families {
  name: "four"
  base: "base"
  vary { keys: "tp" rows: "1|2|3|4" }
}
)";

class Disturbed {
 public:
  explicit Disturbed(const std::string& name) : folder_(golden::scratch(name)) {
    golden::write(folder_ + "/little.textproto", little);
    const Finished whole = run("./rehearse sweep little.textproto -q -o whole", folder_);
    REQUIRE(whole.code == 0);
    csv_ = text_of(folder_ + "/whole/results.csv");
    lines_ = text_of(folder_ + "/whole/results.jsonl");
    REQUIRE(!csv_.empty());
  }

  std::vector<Fault> faults() {
    fs::remove_all(folder_ + "/out");
    return golden::faults_of(sweep, folder_);
  }

  // The defect of a sweep that suffers this fault; "" without a defect.
  std::string survives(const Fault& fault) {
    fs::remove_all(folder_ + "/out");
    const Finished spoilt = golden::with_fault(fault, sweep, folder_);
    if (std::string bad = golden::bad_ending(fault, spoilt); !bad.empty()) return bad;
    if (spoilt.code == 0)
      return same() ? "" : golden::told(fault, "says it is done and is not", spoilt);
    const Finished resumed = run(sweep + " --resume", folder_);
    if (resumed.code != 0) return golden::told(fault, "is not resumed", resumed);
    return same() ? "" : golden::told(fault, "resumes with other bytes", resumed);
  }

 private:
  bool same() const {
    return text_of(folder_ + "/out/results.csv") == csv_ &&
           text_of(folder_ + "/out/results.jsonl") == lines_;
  }

  const std::string sweep = "./rehearse sweep little.textproto -q -j 1 -o out";
  std::string folder_, csv_, lines_;
};

void every(Disturbed& disturbed, std::size_t step) {
  const std::vector<Fault> faults = disturbed.faults();
  std::string wrong;
  for (std::size_t i = 0; i < faults.size(); i += step) {
    const std::string problem = disturbed.survives(faults[i]);
    if (!problem.empty()) wrong += problem + "\n";
  }
  INFO(fmt::format("{} faults, every {}th tried", faults.size(), step));
  INFO(wrong);
  CHECK(wrong.empty());
}

}  // namespace

TEST_CASE("golden: a sweep survives a fault in any of its system calls, a sample of them") {
  Disturbed disturbed("faults");
  every(disturbed, 37);
}

TEST_CASE("golden: a sweep that is killed a thousand times loses nothing", "[.campaign]") {
  const std::string folder = golden::grid_scratch("thousand-kills");
  const std::string sweep = "./rehearse sweep " + golden::grid + " -q ";
  REQUIRE(run(sweep + "-o whole", folder).code == 0);
  const std::string csv = text_of(folder + "/whole/results.csv");
  const std::string lines = text_of(folder + "/whole/results.jsonl");
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(sweep + "-o again", folder).code == 0);
  const double whole =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::mt19937 draw(7);
  // On a machine of any speed most sweeps are killed, and about every tenth one finishes.
  std::uniform_real_distribution<double> early(0.001, 0.8 * whole), late(whole, 20 * whole);
  int kills = 0, finished = 0;
  while (kills < 1000) {
    const double seconds = draw() % 10 == 0 ? late(draw) : early(draw);
    const Finished one =
        run(fmt::format("timeout -s KILL {:.3f} {} -o out --resume", seconds, sweep), folder);
    if (one.code == 128 + 9) {
      ++kills;
      continue;
    }
    INFO(one.err);
    REQUIRE(one.code == 0);
    REQUIRE(text_of(folder + "/out/results.csv") == csv);
    REQUIRE(text_of(folder + "/out/results.jsonl") == lines);
    ++finished;
    fs::remove_all(folder + "/out");
  }
  CHECK(finished > 0);
}

TEST_CASE("golden: a sweep survives a fault in each of its system calls", "[.campaign]") {
  Disturbed disturbed("every-fault");
  every(disturbed, 1);
}

TEST_CASE("golden: a time of day that goes back changes no answer and no record") {
  const std::string folder = golden::grid_scratch("clock");
  const std::string back =
      "FAULT_CLOCK=1 ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" REHEARSE_FAULTS " ";
  const auto seconds = [&](const std::string& command) {
    return std::stoll(run(command, folder).out);
  };
  REQUIRE(seconds(back + "date +%s") <= seconds("date +%s") - 3500);
  const auto same = [&](const std::string& command) {
    const Finished usual = run(command, folder), other = run(back + command, folder);
    INFO(command << "\n" << other.err);
    CHECK(other.code == usual.code);
    CHECK(other.out == usual.out);
  };
  same("./rehearse run llama-2-7b-64 global_batch=64 -q");
  same("./rehearse campaign --step-time 10 --gpus 64 --mtbf 3h --checkpoint-write 60s -q");
  same(
      "./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16 --sequence 4096 zero=1 "
      "schedule=1f1b recompute=none -q");
  const std::string sweep = "./rehearse sweep " + golden::grid + " -q ";
  REQUIRE(run(sweep + "-o whole", folder).code == 0);
  run("timeout -s KILL 0.2 " + sweep + "-o out", folder);
  REQUIRE(run(back + sweep + "-o out --resume", folder).code == 0);
  for (const char* file : {"/results.csv", "/results.jsonl"})
    CHECK(text_of(folder + "/out" + file) == text_of(folder + "/whole" + file));
}
