// release.cpp — the Debian package and the static tarball, each built from a fresh preset and tried
// in a root that has nothing else (tests/release). The first answer comes within 10 s.
#include <catch2/catch.hpp>
#include <iostream>
#include <string>

#include "tests/golden/program.h"

namespace {

void holds(const std::string& script, const std::string& folder) {
  const golden::Finished tried =
      golden::run("sh \"" REHEARSE_SOURCE_DIR "/tests/release/" + script + "\"", folder);
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
  std::cout << tried.out;
}

}  // namespace

TEST_CASE("golden: the Debian package answers in 10 s on a bare Debian", "[.campaign]") {
  const std::string folder = golden::scratch("package");
  if (golden::run("command -v debootstrap && test $(id -u) = 0", folder).code != 0) {
    WARN("not tested: debootstrap is not installed, or the user is not root");
    return;
  }
  holds("package.sh", folder);
}

TEST_CASE("golden: the static tarball answers in 10 s where only the C library is",
          "[.campaign]") {
  holds("static.sh", golden::scratch("static"));
}
