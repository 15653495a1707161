// faults.cpp — a sweep in which one system call fails, at each call and in every way
// (tests/faults/interpose.cpp), or which is killed. It ends with a message and an exit code.
// --resume then gives the bytes of an undisturbed sweep.
#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/program.h"

namespace {

namespace fs = std::filesystem;
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

const std::array<const char*, 6> ways = {"fail",        "full",        "short",
                                         "interrupted", "kill-before", "kill-after"};

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

  // The number of system calls of a sweep.
  std::uint64_t calls() {
    REQUIRE(sweep("").code == 0);
    std::uint64_t number = 0;
    const std::string bytes = text_of(folder_ + "/calls");
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }

  // The defect after a sweep whose call `at` failed in the given way; "" without a defect.
  std::string survives(std::uint64_t at, const char* way) {
    const Finished spoilt = sweep(fmt::format("FAULT_AT={} FAULT_KIND={} ", at, way));
    const std::string where = fmt::format("call {}, {}: ", at, way);
    const auto said = [&](const Finished& finished, const char* what) {
      return fmt::format("{}{}, exit {}: {}", where, what, finished.code, finished.err);
    };
    const bool killed = spoilt.code == 128 + 9 && std::string_view(way).starts_with("kill");
    if (spoilt.code == 124 || (spoilt.code == 128 + 9 && !killed))
      return said(spoilt, "never ends");
    const bool bug = spoilt.err.find("bug of ours") != std::string::npos;
    if (bug || (spoilt.code > 128 && !killed)) return said(spoilt, "ended badly");
    if (spoilt.code == 0 && !same()) return said(spoilt, "says it is done and is not");
    if (spoilt.code != 0 && !killed && spoilt.err.empty() && spoilt.out.empty())
      return said(spoilt, "says nothing");
    if (spoilt.code == 0) return "";
    const Finished resumed =
        run("./rehearse sweep little.textproto -q -j 1 -o out --resume", folder_);
    if (resumed.code != 0) return said(resumed, "is not resumed");
    return same() ? "" : said(resumed, "resumes with other bytes");
  }

 private:
  Finished sweep(const std::string& fault) {
    fs::remove_all(folder_ + "/out");
    golden::write(folder_ + "/calls", std::string(sizeof(std::uint64_t), '\0'));
    // A hanging sweep is ended with exit code 124, or 137 if it ignores the signal. A program with
    // the address sanitizer needs its library loaded first.
    return run("timeout -k 1 60 sh -c '" + fault +
                   "ASAN_OPTIONS=verify_asan_link_order=0 FAULT_COUNT=\"$PWD/calls\" LD_PRELOAD=" +
                   REHEARSE_FAULTS " exec ./rehearse sweep little.textproto -q -j 1 -o out'",
               folder_);
  }

  bool same() const {
    return text_of(folder_ + "/out/results.csv") == csv_ &&
           text_of(folder_ + "/out/results.jsonl") == lines_;
  }

  std::string folder_, csv_, lines_;
};

void every(Disturbed& disturbed, std::uint64_t step) {
  const std::uint64_t calls = disturbed.calls();
  REQUIRE(calls > 20);
  std::vector<std::string> wrong;
  std::uint64_t tried = 0;
  for (std::uint64_t at = 1; at <= calls; ++at) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if ((at * ways.size() + way) % step != 0) continue;
      ++tried;
      const std::string problem = disturbed.survives(at, ways.at(way));
      if (!problem.empty()) wrong.push_back(problem);
    }
  }
  INFO(fmt::format("{} calls, {} faults tried", calls, tried));
  std::string text;
  for (const std::string& problem : wrong) text += problem + "\n";
  INFO(text);
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
