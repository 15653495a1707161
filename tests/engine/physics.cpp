// physics.cpp — closed forms and properties that every replay must have.
#include <catch2/catch.hpp>

#include "sample.h"

using namespace sim;
using engine::Account;

namespace {

engine::RunReport run(const program::Plan& plan, auto change_times) {
  const program::Job job = sample::job(plan);
  engine::Times times = sample::times(job);
  change_times(times);
  return engine::run(job, times, sample::memory(job), {});
}

// Every kernel lasts 1 us and everything else 0: a pass lasts as many us as it has kernels.
void only_kernels(engine::Times& t) {
  t = [&] {
    engine::Times zero;
    zero.classes = t.classes;
    return zero;
  }();
  for (auto& c : t.classes) {
    for (auto& d : c.kernel) d = {1'000'000};
    for (auto& d : c.kernel_overlapped) d = {1'000'000};
    for (auto& d : c.transfer) d = {};
    for (auto& d : c.transfer_overlapped) d = {};
    for (auto& e : c.message)
      for (auto& d : e) d = {};
  }
}

}  // namespace

TEST_CASE("engine: with free transfers one GPU computes all the time") {
  const engine::RunReport report = run(sample::plan(1, 1, 1, 1, 5), only_kernels);
  CHECK(report.classes[0].busy == report.step_time);
  CHECK(report.bubble == 0);
}

TEST_CASE("engine: a uniform pipeline has the bubble of the textbook") {
  // Stages of equal work: each waits (p - 1) slots of (m + p - 1). The ends of the model would make
  // the first and last stage slower, so only the products inside layers take time here.
  for (const int p : {2, 4}) {
    for (const int m : {4, 16}) {
      const program::Job job = sample::job(sample::plan(1, 1, p, 1, m));
      engine::Times times = sample::times(job);
      only_kernels(times);
      for (std::size_t c = 0; c < job.classes.size(); ++c)
        for (std::size_t o = 0; o < job.classes[c].operations.size(); ++o) {
          const model::Operation& op = job.classes[c].operations[o];
          if (op.kind != model::OperationKind::gemm || op.name == "head")
            times.classes[c].kernel[o] = times.classes[c].kernel_overlapped[o] = {};
        }
      const engine::RunReport report = engine::run(job, times, sample::memory(job), {});
      CAPTURE(p, m);
      CHECK(report.bubble == Approx(static_cast<double>(p - 1) / (m + p - 1)).epsilon(1e-9));
    }
  }
}

TEST_CASE("engine: slower messages never make a step faster") {
  Duration last{};
  for (const int factor : {1, 2, 4, 8}) {
    const engine::RunReport report = run(sample::plan(2, 1, 4, 2, 8), [factor](engine::Times& t) {
      for (auto& c : t.classes)
        for (auto& e : c.message)
          for (auto& d : e) d = factor * d;
    });
    CHECK(report.step_time >= last);
    last = report.step_time;
  }
}

TEST_CASE("engine: times that are all doubled double the step") {
  const auto scale = [](int k) {
    return [k](engine::Times& t) {
      for (auto* d :
           {&t.launch, &t.launch_collective, &t.launch_exchange, &t.event, &t.allocation,
            &t.release, &t.device_malloc, &t.device_malloc_per_gib, &t.device_free, &t.synchronize})
        *d = k * *d;
      for (auto& h : t.host) h = k * h;
      for (auto& c : t.classes) {
        for (auto* list : {&c.kernel, &c.kernel_overlapped, &c.transfer, &c.transfer_overlapped})
          for (auto& d : *list) d = k * d;
        for (auto& e : c.message)
          for (auto& d : e) d = k * d;
      }
    };
  };
  const program::Plan plan = sample::plan(2, 1, 2, 2, 6);
  CHECK(run(plan, scale(2)).step_time == 2 * run(plan, scale(1)).step_time);
}

TEST_CASE("engine: what a run needs beyond the device is told under every allocator option") {
  program::Plan plan = sample::plan(1, 1, 1, 1, 2);
  const program::Job job = sample::job(plan);
  const engine::Times times = sample::times(job);
  const engine::RunReport all = engine::run(job, times, sample::memory(job));
  REQUIRE(all.fits());
  const Bytes needs = all.classes[0].peak_allocated;
  for (const char* conf :
       {"", "expandable_segments:True", "per_process_memory_fraction:0.5",
        "expandable_segments:True,per_process_memory_fraction:0.5", "max_split_size_mb:20"}) {
    CAPTURE(conf);
    // A tenth of the required memory: even the first buffers are larger than the address ranges of
    // such a device.
    engine::Memory memory = sample::memory(job, Bytes{needs.n / 10});
    memory.options = conf;
    const engine::RunReport report = engine::run(job, times, memory);
    REQUIRE_FALSE(report.fits());
    const engine::ClassReport& who = report.classes[0];
    CHECK(who.capacity.n == needs.n / 10);
    // The replay ends early in step 1, but the optimizer state is counted. The remainder of an
    // unsplit block counts as allocated; its bytes depend a little on the time.
    CHECK(who.needed.n > needs.n - needs.n / 100);
    CHECK(who.needed.n < needs.n + needs.n / 100);
    CHECK_FALSE(who.out_of_memory->fragmentation_alone);
  }
}

// The golden values of zero bubble: passes of one unit on 4 stages, 8 microbatches
// (arXiv:2401.10241).
TEST_CASE("engine: stages that validate later take as long as the busiest, others till the last") {
  struct Golden {
    const char* schedule;
    std::int64_t together, apart;
  };
  for (const auto& [schedule, together, apart] :
       {Golden{"zb-1p", 27, 27}, Golden{"zb-2p", 27, 24}}) {
    for (const bool later : {false, true}) {
      program::Plan plan = sample::plan(1, 1, 4, 1, 8);
      plan.architecture = sample::llama(4);
      plan.pipeline.schedule = schedule;
      plan.optimizer.post_validation = later;
      REQUIRE(program::problems(plan).empty());
      const program::Job job = sample::job(plan);
      engine::Times times = sample::times(job);
      only_kernels(times);
      for (std::size_t c = 0; c < job.classes.size(); ++c)
        for (std::size_t o = 0; o < job.classes[c].operations.size(); ++o)
          if (job.classes[c].operations[o].name != "fc1")
            times.classes[c].kernel[o] = times.classes[c].kernel_overlapped[o] = {};
      CAPTURE(schedule, later);
      for (const engine::Method method : {engine::Method::fast, engine::Method::reference}) {
        const engine::RunReport report =
            engine::run(job, times, sample::memory(job), {.method = method});
        CHECK(report.step_time.ps == (later ? apart : together) * 1'000'000);
        for (const engine::ClassReport& r : report.classes) {
          Duration sum{};
          for (const Duration d : r.accounts) sum += d;
          CHECK(sum == report.step_time);
        }
      }
    }
  }
}
