// sub_pools.cpp — jobs of many microbatches, whose memory is replayed in sub-pools once times
// repeat. The result must equal that of the same jobs run to the end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sample.h"
#include "tests/program/draw.h"

using namespace sim;

namespace {

struct Counts {
  int same = 0, shorter = 0;
};

void check_equal(const engine::RunReport& a, const engine::RunReport& b) {
  REQUIRE(a.step_time == b.step_time);
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    INFO("class " << c);
    const engine::ClassReport &x = a.classes[c], &y = b.classes[c];
    REQUIRE(x.peak_allocated == y.peak_allocated);
    REQUIRE(x.peak_reserved == y.peak_reserved);
    REQUIRE(x.peak_active == y.peak_active);
    REQUIRE(x.peak_split == y.peak_split);
  }
}

void check_capacity(const program::Job& job, const engine::Times& times, Bytes capacity,
                    Counts& counts) {
  const engine::Memory memory = sample::memory(job, capacity);
  engine::Options options;
  const engine::RunReport a = engine::run(job, times, memory, options);
  options.threads = 3;
  const engine::RunReport shared = engine::run(job, times, memory, options);
  check_equal(a, shared);
  REQUIRE(a.replayed == shared.replayed);
  REQUIRE(a.out_of_memory == shared.out_of_memory);
  options.shortcuts = false;
  const engine::RunReport b = engine::run(job, times, memory, options);
  // If classes wait for memory, the result depends on the order in which they are asked, with or
  // without sub-pools.
  const auto waits = [](const engine::ClassReport& c) {
    return c.out_of_memory || c.alloc_retries > 0;
  };
  if (std::ranges::any_of(a.classes, waits) || std::ranges::any_of(b.classes, waits)) return;
  check_equal(a, b);
  ++counts.same;
  counts.shorter += a.replayed < b.replayed;
}

// A drawn plan with `microbatches` microbatches, once with ample memory and twice with almost too
// little.
void check_draw(std::uint64_t number, int microbatches, Counts& counts) {
  program::Plan plan = sample::draw_legal(number);
  plan.batch.global_batch = microbatches * plan.mesh.dp * plan.batch.micro_batch;
  plan.batch.replica_microbatches.clear();
  if (!problems(plan).empty()) return;  // this number of microbatches breaks a rule
  const program::Job job = sample::job(plan);
  const engine::Times times = sample::times(job, number % 3 == 0 ? 300 : 4);
  INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
  const Bytes room{std::int64_t{1} << 46};
  const engine::RunReport roomy = engine::run(job, times, sample::memory(job, room), {});
  std::int64_t reserved = 0;
  for (const auto& c : roomy.classes) reserved = std::max(reserved, c.peak_reserved.n);
  check_capacity(job, times, room, counts);
  for (const int percent : {99, 97})
    check_capacity(job, times, Bytes{reserved / 100 * percent}, counts);
}

// Draws only schedules whose times settle soonest.
void check_draws(std::uint64_t first, int count, int microbatches, Counts& counts) {
  const std::vector<std::string>& names = sample::schedules_that_run();
  for (std::uint64_t number = first; count > 0; ++number) {
    const std::string& name = names[number % names.size()];
    if (name != "1f1b" && name != "dualpipe-v" && name != "interleaved-zb") continue;
    --count;
    check_draw(number, microbatches, counts);
  }
}

}  // namespace

TEST_CASE("engine: memory in sub-pools is memory run to the end, on drawn plans") {
  Counts counts;
  check_draws(0, 40, 96, counts);
  check_draws(1000, 10, 168, counts);
  CHECK(counts.same > 40);
  CHECK(counts.shorter > 15);
}

TEST_CASE("engine: the same on 300 drawn plans", "[.][thousands][campaign]") {
  Counts counts;
  check_draws(200'000, 300, 192, counts);
  CHECK(counts.shorter > 80);
}
