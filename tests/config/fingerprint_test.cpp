// fingerprint_test.cpp — the programs of the grid's points stay what they were, but for a point
// that a change names.
#include "sim/config/grid.h"
#include "tests/workload/fingerprints.h"

TEST_CASE("config: the programs of the paper's grid are as written down") {
  const auto grid = sim::config::load_grid(REHEARSE_SOURCE_DIR "/workloads/paper-454.textproto");
  REQUIRE(grid);
  REQUIRE(grid->size() == 454);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < grid->size(); ++i) {
    const sim::config::GridPoint point = grid->point(i);
    REQUIRE(point.problems.empty());
    lines.push_back(fmt::format("{} {}", fingerprints::of(point.plan), point.name));
  }
  fingerprints::check("tests/config/fingerprints.txt", lines);
}
