// serve_faults.cpp — `rehearse serve` while one of its system calls goes wrong (faults/serve.py),
// or while it or a worker is killed (faults/serve_kills.py). It answers as without the fault or
// says why not, and ends cleanly.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/golden/program.h"

namespace {

// Runs a script of tests/faults in this folder.
void holds(const std::string& script, const std::string& arguments, const std::string& folder) {
  if (golden::run("command -v python3", folder).code != 0) {
    WARN("not tested: python3 is not installed");
    return;
  }
  const golden::Finished tried = golden::run(
      fmt::format("SERVE_OPTIONS='{}' python3 -B \"" REHEARSE_SOURCE_DIR "/tests/faults/{}\" {}",
                  golden::serve_options, script, arguments),
      folder);
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}

void disturb_server(const std::string& name, int most) {
  holds("serve.py", fmt::format(REHEARSE_FAULTS " {}", most), golden::scratch(name));
}

void kill_server(const std::string& name, int kills) {
  const std::string folder = golden::scratch(name);
  const golden::Finished made = golden::run(
      "./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=8 global_batch=8 sequence=4096 "
      "tp=1,2 -o out -q",
      folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  holds("serve_kills.py", fmt::format("out {}", kills), folder);
}

}  // namespace

TEST_CASE("golden: serve survives a fault in a system call, a sample of them") {
  disturb_server("serve-faults", 40);
}

TEST_CASE("golden: serve survives a fault in each of its system calls", "[.campaign]") {
  disturb_server("serve-faults-all", 100'000);
}

TEST_CASE("golden: serve survives kills of itself and of its workers, a sample of them") {
  kill_server("serve-kills", 4);
}

TEST_CASE("golden: serve survives sixty kills of itself and of its workers", "[.campaign]") {
  kill_server("serve-kills-60", 60);
}
