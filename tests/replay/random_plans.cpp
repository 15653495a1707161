// random_plans.cpp — the two engines on plans drawn at random from all that is legal. The hidden
// case takes thousands: test_replay "[thousands]".
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "sample.h"
#include "tests/workload/draw.h"

using namespace sim;

namespace {

// What the drawn plans combine, so that no mechanism falls out of the draw unseen.
struct Combined {
  std::set<std::string> schedules;
  int splits_fp8 = 0, splits_adapters = 0, splits_recompute = 0;
  int shards_stages = 0, shards_chunks = 0, shards_adapters = 0, shards_fp8 = 0;
  int offload_stages = 0, offload_recompute = 0, offload_shards = 0;
  int zero1 = 0;

  void add(const workload::Plan& p) {
    schedules.insert(p.pipeline.schedule);
    const bool splits = schedule::find(p.pipeline.schedule)->splits != schedule::Splits::none;
    const bool again = p.policy.recompute != workload::Recompute::none;
    const bool shards = p.shards_parameters(), offloads = p.policy.offload_layers > 0;
    const bool stages = p.mesh.pp > 1, adapters = p.trains_adapters(), fp8 = p.numerics.fp8;
    splits_fp8 += splits && fp8;
    splits_adapters += splits && adapters;
    splits_recompute += splits && again;
    shards_stages += shards && stages;
    shards_chunks += shards && p.pipeline.virtual_stages > 1;
    shards_adapters += shards && adapters;
    shards_fp8 += shards && fp8;
    offload_stages += offloads && stages;
    offload_recompute += offloads && again;
    offload_shards += offloads && shards;
    zero1 += !shards && p.sharding.distributed_optimizer;
  }
  int least() const {
    return std::min({splits_fp8, splits_adapters, splits_recompute, shards_stages, shards_chunks,
                     shards_adapters, shards_fp8, offload_stages, offload_recompute, offload_shards,
                     zero1});
  }
};

// Both engines agree on a plan.
void check_plan(const workload::Plan& plan, double launch_us) {
  const workload::Job job = sample::job(plan);
  const replay::Times times = sample::times(job, launch_us);
  const replay::Memory memory = sample::memory(job, Bytes{std::int64_t{1} << 46});
  replay::Options options;
  const replay::RunReport a = replay::run(job, times, memory, options);
  options.method = replay::Method::reference;
  const replay::RunReport b = replay::run(job, times, memory, options);
  REQUIRE(a.step_time == b.step_time);
  REQUIRE(a.warm_up_time == b.warm_up_time);
  for (std::size_t i = 0; i < a.classes.size(); ++i) {
    for (std::size_t k = 0; k < a.classes[i].accounts.size(); ++k) {
      INFO("class " << i << ", " << name(static_cast<replay::Account>(k)));
      REQUIRE(a.classes[i].accounts[k].ps == b.classes[i].accounts[k].ps);
    }
    REQUIRE(a.classes[i].peak_allocated == b.classes[i].peak_allocated);
    REQUIRE(a.classes[i].peak_reserved == b.classes[i].peak_reserved);
    REQUIRE(a.classes[i].peak_active == b.classes[i].peak_active);
    REQUIRE(a.classes[i].static_bytes == b.classes[i].static_bytes);
  }
}

Combined check_plans(std::uint64_t first, int count) {
  Combined combined;
  for (std::uint64_t number = first; count-- > 0; ++number) {
    const workload::Plan plan = sample::draw_legal(number);
    INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
    combined.add(plan);
    check_plan(plan, number % 7 == 0 ? 300 : 4);
  }
  return combined;
}

}  // namespace

TEST_CASE("replay: fast and reference engine agree on plans drawn from all schedules that run") {
  const Combined combined = check_plans(0, 150);
  CHECK(combined.schedules.size() == sample::schedules_that_run().size());
}

TEST_CASE("replay: fast and reference engine agree on 2,000 plans drawn from all that is legal",
          "[.][thousands][campaign]") {
  const Combined combined = check_plans(100'000, 2000);
  CHECK(combined.schedules.size() == sample::schedules_that_run().size());
  CHECK(combined.least() >= 10);
}
