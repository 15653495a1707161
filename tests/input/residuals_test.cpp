#include "sim/input/profile/residuals.h"

#include <catch2/catch.hpp>

#include "support.h"

using namespace sim::input;

TEST_CASE("input: residuals come back as they were written") {
  RunResiduals residuals;
  residuals.command = "rehearse validate \"a b\\\".csv";
  residuals.groups.push_back(
      {ResidualOf::bubble, "p", "Megatron-LM", true, false, "s", true, true, true, {}});
  for (int i = 0; i < 50; ++i) residuals.groups[0].values.push_back(-0.125 + i / 64.0);
  support::Scratch scratch;
  const auto back = load_residuals(scratch.write("r.textproto", to_text(residuals)));
  CAPTURE(support::problems(back));
  REQUIRE(back);
  CHECK(back->command == residuals.command);
  REQUIRE(back->groups.size() == 1);
  CHECK(back->groups[0].quantity == ResidualOf::bubble);
  CHECK(back->groups[0].many_nodes);
  CHECK(back->groups[0].fitted);
  REQUIRE(back->groups[0].values.size() == 50);
  CHECK(back->groups[0].values[8] == 0);
  CHECK(to_text(*back) == to_text(residuals));
}

TEST_CASE("input: the repository's residuals load and know every profile") {
  const auto found = find_residuals();
  CAPTURE(support::problems(found));
  REQUIRE(found);
  for (const char* profile : {"a100-40", "a100-80", "h100-80", "h100-94"}) {
    CAPTURE(profile);
    CHECK(std::any_of(found->groups.begin(), found->groups.end(), [&](const ResidualGroup& group) {
      return group.profile == profile && group.quantity == ResidualOf::time;
    }));
  }
}

TEST_CASE("input: a broken file of residuals says where") {
  support::Scratch scratch;
  const std::string said = support::problems(
      load_residuals(scratch.write("r.textproto", "command: \"x\"\ngroups { quantity: time }\n")));
  CHECK(support::contains(said, "r.textproto:2:"));
}
