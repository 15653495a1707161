// capture.cpp — calibration/capture without a GPU: its dry run lists the matrix products that the
// program contains.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "sim/input/plan/plan.h"
#include "sim/program/build/build.h"

using namespace sim;

namespace {

const std::string folder = std::string(REHEARSE_BINARY_DIR) + "/capture";

// The output of the dry run; empty without Python.
std::string dry_run() {
  const std::string command = "PYTHONDONTWRITEBYTECODE=1 python3 '" REHEARSE_SOURCE_DIR
                              "/calibration/capture/capture.py' --dry-run --out '" +
                              folder + "'";
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  CHECK(::pclose(pipe) == 0);
  return text;
}

using Product = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;

std::string role(model::GemmRole role) {
  return role == model::GemmRole::forward          ? "forward"
         : role == model::GemmRole::input_gradient ? "input_gradient"
                                                   : "weight_gradient";
}

}  // namespace

TEST_CASE("calibrate: a capture runs the products of the stage that our program runs") {
  if (std::system("python3 -c pass >/dev/null 2>&1") != 0) return;
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  std::istringstream lines(dry_run());
  std::set<Product> captured;
  std::string name;
  int stage = 0, cases = 0;
  const auto compare = [&] {
    if (name.empty()) return;
    INFO(name);
    ++cases;
    const auto plan = input::load_plan(folder + "/" + name + ".textproto", {});
    REQUIRE(plan);
    const program::Job job = program::build(plan->plan, {});
    std::set<Product> ours;
    for (const program::Program& program : job.classes)
      if (program.stage == stage)
        for (const model::Operation& o : program.operations)
          if (o.kind == model::OperationKind::gemm) ours.insert({role(o.role), o.m, o.n, o.k});
    CHECK(captured == ours);
    captured.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "case") {
      compare();
      words >> name;
      name.pop_back();  // the colon
      const std::size_t at = line.find(", stage ");
      REQUIRE(at != std::string::npos);
      stage = std::stoi(line.substr(at + 8));
    } else if (word == "product") {
      Product p;
      words >> word >> std::get<0>(p) >> std::get<1>(p) >> std::get<2>(p) >> std::get<3>(p);
      captured.insert(p);
    }
  }
  compare();
  CHECK(cases >= 8);
}
