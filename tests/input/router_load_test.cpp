// router_load_test.cpp — files with the load shares of a router's experts: correct and wrong ones.
#include "sim/input/tables/router_load.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace sim::input {
namespace {

model::Architecture four_experts() {
  model::Architecture a;
  a.name = "four";
  a.layers = 3;
  a.experts.count = 4;
  a.experts.top_k = 1;
  a.experts.layers = "([0]*1+[1]*2)";
  return a;
}

// The message after the path, or "" and the rows.
std::string problem_of(const std::string& text, std::vector<std::vector<double>>* rows = nullptr) {
  const std::string path = std::filesystem::temp_directory_path() / "rehearse-router-load.csv";
  std::ofstream(path) << text;
  auto read = read_router_load(path, four_experts());
  std::filesystem::remove(path);
  if (const auto* problem = std::get_if<std::string>(&read)) {
    CHECK(problem->starts_with(path + ":"));
    return problem->substr(path.size() + 1);
  }
  if (rows != nullptr) *rows = std::get<0>(read);
  return "";
}

}  // namespace

TEST_CASE("input: a router's shares are read for all layers or for each") {
  std::vector<std::vector<double>> rows;
  CHECK(problem_of("# popular first\n0.4, 0.3, 0.2, 0.1\n", &rows).empty());
  CHECK(rows.size() == 1);
  CHECK(rows[0][0] == Approx(0.4));
  CHECK(problem_of("1 0 0 0\n\n0.25 0.25 0.25 0.25", &rows).empty());
  CHECK(rows.size() == 2);
  // A sum within 0.001 of 1 is scaled to 1.
  CHECK(problem_of("0.333 0.333 0.333 0.0005", &rows).empty());
  CHECK(rows[0][0] + rows[0][1] + rows[0][2] + rows[0][3] == Approx(1).epsilon(1e-12));
}

TEST_CASE("input: shares of the wrong shape or sum are named with their line") {
  CHECK(problem_of("0.5 0.5\n") == "1: 2 shares; four has 4 experts");
  CHECK(problem_of("0.4 0.3 0.2 0.1\n0.4 0.3 0.2 0.2\n") ==
        "2: the shares sum to 1.1; they must sum to 1");
  CHECK(problem_of("0.4 0.3 -0.2 0.5\n") == "1: '-0.2' is no share; write a number of 0 or more");
  CHECK(problem_of("0.4 0.3 nan 0.5\n") == "1: 'nan' is no share; write a number of 0 or more");
  CHECK(problem_of("1 0 0 0\n1 0 0 0\n1 0 0 0\n") ==
        " 3 lines of shares; write one for all layers, or one for each of the 2 layers with "
        "experts");
  CHECK(problem_of("") ==
        " 0 lines of shares; write one for all layers, or one for each of the 2 "
        "layers with experts");
  const auto missing = read_router_load("/nowhere/shares.csv", four_experts());
  CHECK(std::get<std::string>(missing).starts_with("/nowhere/shares.csv: "));
}

}  // namespace sim::input
