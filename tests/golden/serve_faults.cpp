// serve_faults.cpp — `rehearse serve` while one of its system calls goes wrong (faults/serve.py).
// It answers as without the fault or says why not, and ends cleanly.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/golden/program.h"

namespace {

void disturb_server(const std::string& name, int most) {
  const std::string folder = golden::scratch(name);
  if (golden::run("command -v python3", folder).code != 0) {
    WARN("not tested: python3 is not installed");
    return;
  }
  const golden::Finished tried = golden::run(
      fmt::format(
          "python3 \"" REHEARSE_SOURCE_DIR "/tests/faults/serve.py\" " REHEARSE_FAULTS " {}", most),
      folder);
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}

}  // namespace

TEST_CASE("golden: serve survives a fault in a system call, a sample of them") {
  disturb_server("serve-faults", 40);
}

TEST_CASE("golden: serve survives a fault in each of its system calls", "[.campaign]") {
  disturb_server("serve-faults-all", 100'000);
}
