// random_plans.cpp — the two engines on plans drawn at random from all that is legal. The hidden
// case takes thousands: test_replay "[thousands]".
#include <catch2/catch.hpp>

#include "sample.h"
#include "tests/workload/draw.h"

using namespace sim;

namespace {

// Both engines on the first `count` legal plans from number `first` on.
void check_plans(std::uint64_t first, int count) {
  for (std::uint64_t number = first; count > 0; ++number) {
    const workload::Plan plan = sample::draw(number);
    if (!workload::problems(plan).empty()) continue;
    --count;
    const workload::Job job = sample::job(plan);
    const replay::Times times = sample::times(job, number % 7 == 0 ? 300 : 4);
    const replay::Memory memory = sample::memory(job, Bytes{std::int64_t{1} << 46});
    replay::Options options;
    const replay::RunReport a = replay::run(job, times, memory, options);
    options.method = replay::Method::reference;
    const replay::RunReport b = replay::run(job, times, memory, options);
    INFO("draw " << number);
    REQUIRE(a.step_time == b.step_time);
    REQUIRE(a.warm_up_time == b.warm_up_time);
    for (std::size_t i = 0; i < a.classes.size(); ++i) {
      REQUIRE(a.classes[i].accounts == b.classes[i].accounts);
      REQUIRE(a.classes[i].peak_allocated == b.classes[i].peak_allocated);
      REQUIRE(a.classes[i].peak_reserved == b.classes[i].peak_reserved);
      REQUIRE(a.classes[i].peak_active == b.classes[i].peak_active);
      REQUIRE(a.classes[i].static_bytes == b.classes[i].static_bytes);
    }
  }
}

}  // namespace

TEST_CASE("replay: fast and reference engine agree on plans drawn at random") {
  check_plans(0, 150);
}

TEST_CASE("replay: fast and reference engine agree on 2,000 plans drawn at random",
          "[.][thousands]") {
  check_plans(100'000, 2000);
}
