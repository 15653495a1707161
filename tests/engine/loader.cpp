// loader.cpp — whether a step waits for its data loaders, and whether the wait is accounted for.
#include "sim/engine/loader.h"

#include <catch2/catch.hpp>

#include "sample.h"
#include "sim/engine/replay.h"

namespace sim::engine {

namespace {

// Two workers, a hundred microbatches of one sequence each.
LoaderTimes loaders(double sequence_seconds, int replicas = 1) {
  LoaderTimes t;
  t.sequence = from_seconds(sequence_seconds);
  t.workers = 2;
  t.microbatches = 100;
  t.replicas = replicas;
  return t;
}

double wait(const LoaderTimes& t, double step_seconds) {
  return seconds(wait_for_data(t, from_seconds(step_seconds)));
}

}  // namespace

TEST_CASE("loader: workers that keep up cost nothing") {
  CHECK(wait_for_data({}, from_seconds(100)).ps == 0);
  CHECK(wait(loaders(0), 100) == 0);
  // A batch every second; two workers make one every 0.95 seconds.
  CHECK(wait(loaders(1.9), 100) == Approx(0).margin(1e-9));
}

TEST_CASE("loader: workers that are too slow set the pace") {
  // Two workers of 3 seconds: a batch every 1.5 seconds; the GPU needs 1.
  CHECK(wait(loaders(3), 100) == Approx(50).epsilon(0.01));
  LoaderTimes more = loaders(3);
  more.workers = 3;
  CHECK(wait(more, 100) == Approx(0).margin(1e-9));
  LoaderTimes pairs = loaders(3);
  pairs.sequences = 2;
  pairs.microbatches = 50;  // of 2 seconds, with 3 seconds for the data of each
  CHECK(wait(pairs, 100) == Approx(50).epsilon(0.01));
}

TEST_CASE("loader: the slowest replica sets the pace where sequences differ") {
  const auto step = [](int replicas) {
    LoaderTimes t = loaders(1, replicas);
    t.many_documents = 0.1;
    t.many_documents_extra = 2;
    return wait(t, 100);
  };
  // A worker takes 1.2 seconds on average: 0.6 per batch; the GPU needs 1.
  CHECK(step(1) < 10);
  CHECK(step(1) < step(4));
  CHECK(step(4) < step(16));
  CHECK(step(16) == step(16));
}

TEST_CASE("loader: late data lengthens the step of every class alike") {
  program::Plan plan = sample::plan(2, 1, 2, 2, 8);
  plan.stack.reset_attention_mask = true;
  const program::Job job = sample::job(plan);
  Times times = sample::times(job);
  const Memory memory = sample::memory(job);
  const RunReport in_time = run(job, times, memory);
  times.loader = loaders(1, 2);
  times.loader.microbatches = 8;
  const RunReport late = run(job, times, memory);
  const Duration wait = wait_for_data(times.loader, in_time.step_time);
  CHECK(wait.ps > 0);
  CHECK(late.step_time == in_time.step_time + wait);
  CHECK(late.step_time == run(job, times, memory, {.method = Method::reference}).step_time);
  for (const ClassReport& c : late.classes) {
    Duration sum{};
    for (const Duration d : c.accounts) sum += d;
    CHECK(sum == late.step_time);
    CHECK(c.accounts[static_cast<std::size_t>(Account::data)].ps == wait.ps);
  }
}

}  // namespace sim::engine
