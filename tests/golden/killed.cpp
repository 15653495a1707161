// killed.cpp — a worker is killed from outside, as Linux does when a host is out of memory. The
// command ends with a message and exit code 75, and reports neither an internal error nor an
// answer.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

namespace {

// Runs the command and sends a signal to its first worker as soon as it exists.
golden::Finished with_signal(const std::string& signal, const std::string& command,
                             const std::string& folder) {
  return run("bash -c './rehearse " + command +
                 " --json -q --jobs 2 & pid=$!; for i in {1..2000}; do"
                 " for child in $(cat /proc/$pid/task/$pid/children); do"
                 " grep -qx rehearse /proc/$child/comm && kill -" +
                 signal +
                 " $child && break 2; done;"
                 " sleep 0.01; done; wait $pid; exit $?'",
             folder);
}

}  // namespace

TEST_CASE("golden: a worker killed from outside ends its command with 75") {
  const std::string folder = golden::scratch("killed");
  for (const std::string command :
       {"validate calibration/measured/paper_grid.csv",
        "validate calibration/measured/paper_grid.csv -o rows --shard 1/2",
        "whatif llama-2-7b-64 --vary micro_batch=1,2,4,8 --vary tp=1,2,4,8 --vary pp=1,2,4,8",
        "run mixtral-8x7b-64 router=random --seeds 5000",
        "plan llama-3.1-8b dgx-h100 --gpus 16 --batch 64 --sequence 8192"}) {
    const golden::Finished finished = with_signal("KILL", command, folder);
    INFO(command << "\n" << finished.err);
    CHECK(finished.code == 75);
    CHECK(finished.err.starts_with("rehearse: killed from outside with signal 9 (Killed)"));
    const auto document = nlohmann::json::parse(finished.out, nullptr, false);
    REQUIRE(document.is_object());
    CHECK(document["schema"] == "rehearse/error/1");
    CHECK(document["result"]["exit_code"] == 75);
  }
  // The results of the other workers are kept, and nothing incomplete is recorded as an answer.
  const std::string kept = golden::text_of(folder + "/rows/shard-0001-of-0002/results.jsonl");
  CHECK(kept.find("killed") == std::string::npos);
}

TEST_CASE("golden: plan says when our program failed on a plan") {
  const golden::Finished finished =
      with_signal("SEGV", "plan llama-3.1-8b dgx-h100 --gpus 16 --batch 64 --sequence 8192",
                  golden::scratch("crashed"));
  INFO(finished.err);
  CHECK(finished.code == 70);
  CHECK(finished.err.starts_with("a bug of ours: our program failed 1 time"));
  CHECK(finished.err.find("the simulator stopped with signal 11") != std::string::npos);
  const auto document = nlohmann::json::parse(finished.out, nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document["schema"] == "rehearse/plan/1");
}
