// bounded.cpp — compares replays with bounded memory, or without memory, to exact ones.
#include <catch2/catch.hpp>

#include "sample.h"
#include "sim/engine/rank/tensor_peak.h"
#include "sim/engine/run/fast_engine.h"
#include "tests/program/draw.h"

using namespace sim;
using engine::MemoryDetail;

namespace {

struct Asked {
  program::Job job;
  engine::Times times;
  engine::Memory memory;

  engine::RunReport run(MemoryDetail detail, bool until_out = false) const {
    engine::Options options;
    options.memory = detail;
    options.until_out = until_out;
    return engine::run(job, times, memory, options);
  }
};

Asked asked(const program::Plan& plan, Bytes total) {
  Asked all{sample::job(plan), {}, {}};
  all.times = sample::times(all.job);
  all.memory = sample::memory(all.job, total);
  return all;
}

// Checks that the exact peaks lie within the bounds, with the same outcome. Returns whether the
// result is a range.
bool check_bounds(const Asked& one, const engine::RunReport& exact) {
  const engine::RunReport bounded = one.run(MemoryDetail::bounded);
  REQUIRE(bounded.fits() == exact.fits());
  const engine::RunReport until_out = one.run(MemoryDetail::exact, true);
  REQUIRE(until_out.fits() == exact.fits());
  if (exact.fits()) REQUIRE(until_out.step_time == exact.step_time);
  for (std::size_t c = 0; c < exact.classes.size(); ++c) {
    const engine::ClassReport &a = exact.classes[c], &b = bounded.classes[c];
    INFO("class " << c << ": " << b.peak_reserved.n << " " << a.peak_reserved.n << " "
                  << b.reserved_most.n);
    REQUIRE(b.peak_reserved <= a.peak_reserved);
    REQUIRE(b.needed <= a.needed);
    if (!exact.fits()) continue;  // the bounded replay may have ended early
    REQUIRE(a.peak_reserved <= b.reserved_most);
    if (bounded.bounded) REQUIRE(b.reserved_most <= b.capacity);
    if (!bounded.bounded) REQUIRE(a.peak_reserved == b.peak_reserved);
  }
  if (!exact.fits()) {
    // Each class that surely runs out of memory does so, at the same place.
    for (const std::size_t c : bounded.out_of_memory) {
      const auto &a = exact.classes[c].out_of_memory, &b = bounded.classes[c].out_of_memory;
      REQUIRE((a && b && a->requested == b->requested && a->place.pass == b->place.pass));
    }
    return bounded.bounded;
  }
  // Driver calls after the end of the memory replay are not seen; they can only take time.
  REQUIRE(bounded.step_time <= exact.step_time);
  if (!bounded.bounded) REQUIRE(bounded.step_time == exact.step_time);
  return bounded.bounded;
}

}  // namespace

TEST_CASE("engine: exact peaks lie within the bounds on drawn plans, at any capacity") {
  int ranges = 0, runs_out = 0;
  for (std::uint64_t number = 0; number < 60; ++number) {
    program::Plan plan = sample::draw_legal(number);
    // Long steps: more microbatches let the replay skip more.
    plan.batch.global_batch *= 16;
    for (int& count : plan.batch.replica_microbatches) count *= 16;
    if (!program::problems(plan).empty()) continue;
    INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
    const Asked roomy = asked(plan, Bytes{std::int64_t{1} << 46});
    const engine::RunReport exact = roomy.run(MemoryDetail::exact);
    ranges += check_bounds(roomy, exact);
    std::int64_t most = 0;
    for (const auto& c : exact.classes) most = std::max(most, c.peak_reserved.n);
    for (const std::int64_t percent : {95, 200}) {
      INFO("capacity " << percent << " % of the peak");
      const Asked tight = asked(plan, Bytes{most / 100 * percent});
      const engine::RunReport known = tight.run(MemoryDetail::exact);
      ranges += check_bounds(tight, known);
      runs_out += !known.fits();
    }
  }
  CHECK(ranges >= 5);
  CHECK(runs_out >= 10);
}

TEST_CASE("engine: time alone is the time of the step, or less where memory asks the driver") {
  int same = 0;
  for (std::uint64_t number = 0; number < 120; ++number) {
    const program::Plan plan = sample::draw_legal(number);
    INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
    const Asked one = asked(plan, Bytes{std::int64_t{1} << 46});
    const engine::RunReport exact = one.run(MemoryDetail::exact);
    const engine::RunReport time = one.run(MemoryDetail::none);
    // Ranks that do not synchronise at the end of a step: earlier steps have driver calls, too.
    if (one.job.ends_together) REQUIRE(time.step_time <= exact.step_time);
    REQUIRE(time.fits());
    for (const auto& c : time.classes) REQUIRE(c.peak_reserved.n == 0);
    if (one.job.ends_together)
      REQUIRE(time.step_time == engine::least_step(one.job, one.times, one.memory));
    same += time.step_time == exact.step_time;
    Duration sum{};
    for (const Duration d : time.classes[0].accounts) sum += d;
    REQUIRE(sum == time.step_time);
  }
  CHECK(same >= 60);
}

TEST_CASE("engine: a replay that stops early stops where its limits say") {
  int stopped = 0, retried = 0;
  for (std::uint64_t number = 0; number < 12; ++number) {
    program::Plan plan = sample::draw_legal(number);
    plan.batch.global_batch *= 4;
    for (int& count : plan.batch.replica_microbatches) count *= 4;
    if (!program::problems(plan).empty()) continue;
    INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
    const Asked roomy = asked(plan, Bytes{std::int64_t{1} << 46});
    const engine::RunReport whole = roomy.run(MemoryDetail::exact);
    CHECK_FALSE(whole.ended_early);
    std::int64_t least = std::int64_t{1} << 46;  // left free by the fullest class
    for (const auto& c : whole.classes) least = std::min(least, c.capacity.n - c.peak_reserved.n);
    for (const std::int64_t more : {0, 1}) {
      engine::Options options;
      options.least_free = Bytes{least + more};
      const engine::RunReport run = engine::run(roomy.job, roomy.times, roomy.memory, options);
      CHECK(run.ended_early == (more > 0));
      if (more == 0) CHECK(run.step_time == whole.step_time);
      if (more > 0) CHECK(run.replayed <= whole.replayed);
      stopped += run.ended_early;
    }
    std::int64_t most = 0;
    for (const auto& c : whole.classes) most = std::max(most, c.peak_reserved.n);
    const Asked tight = asked(plan, Bytes{most / 100 * 97});
    int retries = 0;
    for (const auto& c : tight.run(MemoryDetail::exact).classes)
      retries = std::max(retries, c.alloc_retries);
    for (const int fewer : {0, 1}) {
      if (retries < fewer) continue;
      engine::Options options;
      options.most_retries = retries - fewer;
      CHECK(engine::run(tight.job, tight.times, tight.memory, options).ended_early == (fewer > 0));
      retried += fewer;
    }
  }
  CHECK(stopped >= 8);
  CHECK(retried >= 2);
}

TEST_CASE("engine: the peak of the tensors is that of a walk through every pass") {
  int cut = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    program::Plan plan = sample::draw_legal(number);
    plan.batch.global_batch *= 4;
    for (int& count : plan.batch.replica_microbatches) count *= 4;
    if (!program::problems(plan).empty()) continue;
    INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan));
    for (program::Program& program : sample::job(plan).classes) {
      const std::int64_t peak = engine::peak_of_tensors(program);
      cut += program.cuts.size() > 2;
      program.cuts.clear();
      REQUIRE(peak == engine::peak_of_tensors(program));
    }
  }
  CHECK(cut >= 20);
}

TEST_CASE("engine: a plan that no allocator could save ends early with the same first event") {
  int early = 0, to_the_end = 0, other_stage = 0;
  for (std::uint64_t number = 0; number < 60; ++number) {
    program::Plan plan = sample::draw_legal(number);
    plan.batch.global_batch *= 4;
    for (int& count : plan.batch.replica_microbatches) count *= 4;
    if (!program::problems(plan).empty()) continue;
    std::int64_t most = 0;
    for (const program::Program& program : sample::job(plan).classes)
      most = std::max(most, engine::peak_of_tensors(program));
    for (const std::int64_t percent : {60, 90, 99, 102}) {
      INFO("draw " << number << ": " << plan.pipeline.schedule << " " << short_name(plan) << ", "
                   << percent << " %");
      const Asked one = asked(plan, Bytes{most / 100 * percent});
      const engine::RunReport whole = one.run(MemoryDetail::exact);
      // A replay that runs out of memory ends soon after, also an exact one.
      const engine::RunReport roomy =
          asked(plan, Bytes{std::int64_t{1} << 46}).run(MemoryDetail::exact);
      engine::Options options;
      options.peaks_if_out = false;
      const engine::RunReport run = engine::run(one.job, one.times, one.memory, options);
      REQUIRE(run.fits() == whole.fits());
      early += run.ended_early;
      to_the_end += !run.ended_early;
      if (percent > 100) CHECK_FALSE(run.ended_early);
      if (!run.ended_early) CHECK(run.step_time == whole.step_time);
      for (std::size_t c = 0; c < whole.classes.size(); ++c) {
        const engine::ClassReport &a = whole.classes[c], &b = run.classes[c], &r = roomy.classes[c];
        CHECK(b.peak_allocated <= std::max(a.peak_allocated, r.peak_allocated));
        CHECK(b.peak_reserved <= std::max(a.peak_reserved, r.peak_reserved));
        CHECK(b.needed <= std::max(a.needed, r.needed));
        if (run.ended_early)
          CHECK(b.peak_allocated.n >= engine::peak_of_tensors(one.job.classes[c]));
      }
      if (whole.fits()) continue;
      CHECK(run.replayed <= whole.replayed);
      REQUIRE(run.out_of_memory.front() == whole.out_of_memory.front());
      const std::size_t first = whole.out_of_memory.front();
      const engine::OutOfMemory &a = *whole.classes[first].out_of_memory,
                                &b = *run.classes[first].out_of_memory;
      CHECK(a.when == b.when);
      CHECK(a.requested == b.requested);
      CHECK(a.place.label == b.place.label);
      // The exact replay may end before the tensors of the class exceed its memory.
      const bool exceeds =
          engine::peak_of_tensors(one.job.classes[first]) > whole.classes[first].capacity.n;
      INFO("needed " << whole.classes[first].needed.n << " or " << run.classes[first].needed.n
                     << ", tensors " << engine::peak_of_tensors(one.job.classes[first]) << " of "
                     << whole.classes[first].capacity.n);
      CHECK((a.fragmentation_alone == b.fragmentation_alone ||
             (exceeds && !b.fragmentation_alone)));
      other_stage += a.stage > 0;
    }
  }
  CHECK(early >= 60);
  CHECK(to_the_end >= 40);
  CHECK(other_stage >= 1);
}
