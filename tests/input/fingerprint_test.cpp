// fingerprint_test.cpp — the programs of the grid's points do not change, except for points that a
// change names.
#include "sim/input/plan/grid.h"
#include "tests/program/fingerprints.h"

TEST_CASE("input: the programs of the paper's grid are as written down") {
  const auto grid = sim::input::load_grid(REHEARSE_SOURCE_DIR "/workloads/paper-454.textproto");
  REQUIRE(grid);
  REQUIRE(grid->size() == 454);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < grid->size(); ++i) {
    const sim::input::GridPoint point = grid->point(i);
    REQUIRE(point.problems.empty());
    lines.push_back(fmt::format("{} {}", fingerprints::of(point.plan), point.name));
  }
  fingerprints::check("tests/input/fingerprints.txt", lines);
}
