// balance_test.cpp — slots of every kind of plan: only empty slots are filled, only full ones
// emptied, and only permanent tensors remain between steps.
#include <catch2/catch.hpp>
#include <string>

#include "draw.h"
#include "sample.h"

namespace {

void check_balance(const sample::Plan& plan) {
  const auto job = sample::job(plan);
  for (const auto& program : job.classes) {
    sample::Walk walk(program);
    walk.run(program.setup);
    walk.run(program.first_step);
    CHECK(walk.holds_only_fixed());
    const std::int64_t held = walk.bytes();
    walk.run(program.step);
    walk.run(program.step);
    CHECK(walk.holds_only_fixed());
    CHECK(walk.bytes() == held);
    REQUIRE(walk.broken() == std::vector<std::string>{});
  }
}

}  // namespace

TEST_CASE("program: slots balance over the catalog of plans") {
  for (const auto& [name, plan] : sample::catalog()) {
    CAPTURE(name, sample::short_name(plan), plan.pipeline.schedule,
            static_cast<int>(plan.stack.attention), static_cast<int>(plan.policy.recompute),
            plan.mesh.sequence_parallel, plan.architecture.kv_heads);
    REQUIRE(sample::problems(plan).empty());
    check_balance(plan);
  }
}

TEST_CASE("program: slots balance over plans drawn at random") {
  for (std::uint64_t number = 50'000; number < 50'600; ++number) {
    const sample::Plan plan = sample::draw(number);
    INFO("draw " << number);
    if (sample::problems(plan).empty()) check_balance(plan);
  }
}
