// replicas.cpp — replicas on unequal GPUs that share a step unevenly, against closed forms.
#include <catch2/catch.hpp>

#include "sample.h"

using namespace sim;

namespace {

// Each replica has one GPU. The GPUs of the second replica take twice as long for everything.
engine::RunReport run(int first, int second) {
  program::Plan p = sample::plan(1, 1, 1, 2, 1);
  p.batch.replica_microbatches = {first, second};
  p.batch.global_batch = first + second;
  REQUIRE(program::problems(p).empty());
  const program::Job job =
      program::build(program::valid(p), {Bytes{4 << 20}, Bytes{8 << 20}, 100}, false, {0, 1});
  engine::Times times = sample::times(job, 0.01);
  for (auto* of : {&times.classes[1].kernel, &times.classes[1].kernel_overlapped})
    for (Duration& kernel : *of) kernel = 2 * kernel;
  return engine::run(job, times, sample::memory(job));
}

Duration waits(const engine::RunReport& report, std::size_t replica) {
  const engine::Accounts& accounts = report.classes[replica].accounts;
  return accounts[static_cast<std::size_t>(engine::Account::dp_exposed)] +
         accounts[static_cast<std::size_t>(engine::Account::rank_wait)];
}

}  // namespace

TEST_CASE("engine: a GPU twice as slow with half the microbatches ends with the other") {
  const engine::RunReport even = run(6, 6), fair = run(8, 4);
  // Neither replica waits for the other. With equal shares, the fast one waits half of the step.
  const double step = seconds(fair.step_time);
  CHECK(std::abs(seconds(waits(fair, 0)) - seconds(waits(fair, 1))) < 0.02 * step);
  CHECK(seconds(waits(even, 0)) > 0.4 * seconds(even.step_time));
  // 6 x 2 against 8 x 1, plus the work done once per step.
  CHECK(step < 0.75 * seconds(even.step_time));
  CHECK(step > 8.0 / 12 * seconds(even.step_time));
  // The same work in all.
  CHECK(fair.executed_flops == Approx(even.executed_flops).epsilon(1e-12));
}

TEST_CASE("engine: the slower replica alone decides how long a step is") {
  CHECK(run(8, 2).step_time == run(8, 3).step_time);
  // Beyond that, each further microbatch adds its time.
  const Duration six = run(8, 6).step_time, seven = run(8, 7).step_time;
  const Duration more = seven - six;
  CHECK(six - run(8, 5).step_time == more);
  CHECK(run(1, 7).step_time == seven);
  const Duration each = run(12, 1).step_time - run(11, 1).step_time;
  CHECK(seconds(more) == Approx(2 * seconds(each)).epsilon(0.02));
}
