// capture.cpp — `rehearse capture` writes a Python file with the shapes of a plan. Where PyTorch is
// installed it runs on the CPU, for the form of its result.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/golden/program.h"

namespace {

std::size_t lines_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with(start);
  return count;
}

}  // namespace

TEST_CASE("golden: capture writes a script that lists the kernels of the plan") {
  const std::string folder = golden::scratch("capture");
  const auto written = golden::run("./rehearse capture llama-2-7b-64 tp=2 -o capture.py", folder);
  INFO(written.err);
  REQUIRE(written.code == 0);
  CHECK(golden::run("./rehearse capture llama-2-7b-64 -o capture.py", folder).code != 0);
  if (golden::run("python3 -c pass", folder).code != 0) return;
  const auto listed = golden::run("python3 capture.py --list", folder);
  INFO(listed.err);
  REQUIRE(listed.code == 0);
  // Four linear modules of a layer and the output layer, forward and two gradients each; the
  // projection and fc2 of other sizes do not coincide at tp 2.
  CHECK(lines_with(listed.out, "product ") == 15);
  CHECK(lines_with(listed.out, "attention ") == 1);
  CHECK(listed.out.find("\"heads\": 16") != std::string::npos);
  if (golden::run("python3 -c 'import torch'", folder).code != 0) return;
  const std::string small = "./rehearse capture llama-2-7b-64 tp=8 sequence=64 -o small.py";
  REQUIRE(golden::run(small, folder).code == 0);
  const std::string measured = "python3 small.py --device cpu --minutes 0.2 --out m.json";
  REQUIRE(golden::run(measured, folder).code == 0);
  CHECK(golden::run("./rehearse check m.json", folder).code == 0);
}

TEST_CASE("golden: nonsense is refused with its reason, and nothing is written") {
  const std::string folder = golden::scratch("nonsense");
  const std::string command =
      "./rehearse calibrate " REHEARSE_SOURCE_DIR
      "/tests/calibrate/data/alexnet.json.gz --plan llama-2-7b-64 --rank 0";
  const auto refused = golden::run(command + " -o new.textproto", folder);
  CHECK(refused.code == 65);
  CHECK(refused.err.find("new.textproto is not written: ") != std::string::npos);
  CHECK(refused.err.find("the plan's cluster has H100") != std::string::npos);
  CHECK(golden::run("test -e new.textproto", folder).code != 0);
  const auto warned = golden::run(command, folder);
  CHECK(warned.code == 2);
  CHECK(warned.err.find("warning: ") != std::string::npos);
}
