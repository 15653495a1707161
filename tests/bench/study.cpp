// study.cpp — from a plan to its answer, for the runs of the speed budget, and points of a sweep a
// second. The network's answers are warm after the first iteration, as in a sweep.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <stdexcept>

#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"

using namespace sim;

namespace {

input::PlanFile load(const std::string& name, const std::vector<std::string>& settings = {}) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 0);
  const std::string path =
      name.empty() ? "" : REHEARSE_SOURCE_DIR "/workloads/" + name + ".textproto";
  const auto plan = input::load_plan(path, settings);
  if (!plan) throw std::runtime_error(plan.errors().front().message);
  return *plan;
}

void answer(benchmark::State& state, const input::PlanFile& file, engine::Method method,
            engine::MemoryDetail memory = engine::MemoryDetail::exact) {
  answer::Sites sites;
  answer::Site& site = **sites.of(file.machine);
  engine::Options options;
  options.method = method;
  options.memory = memory;
  std::int64_t operations = 0;
  for (auto _ : state) {
    const answer::Answer answer = answer::evaluate(answer::checked(file.plan, site), options);
    operations += answer.run.events;
    benchmark::DoNotOptimize(answer.run.step_time);
  }
  // Operations that a full replay executes, whether one by one or known to repeat.
  state.counters["operations"] =
      benchmark::Counter(static_cast<double>(operations), benchmark::Counter::kIsRate);
}

void workload(benchmark::State& state, const char* name) {
  answer(state, load(name), engine::Method::fast);
}
BENCHMARK_CAPTURE(workload, 7b_64_gpus, "llama-2-7b-64")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 70b_64_gpus, "llama-3.1-70b-64")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 175b_1024_gpus, "gpt3-175b-1024")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 405b_16384_gpus, "llama-3.1-405b-16384")->Unit(benchmark::kMillisecond);

void reference(benchmark::State& state) {
  answer(state, load("llama-2-7b-64"), engine::Method::reference);
}
BENCHMARK(reference)->Unit(benchmark::kMillisecond);

// Growth: a 7B run on 64 GPUs, and so many times its microbatches, its layers, its replicas.
void growth(benchmark::State& state, const char* of, engine::MemoryDetail memory) {
  const std::int64_t times = state.range(0);
  const std::string what = of;
  const auto grown = [&](const char* one, std::int64_t base) {
    return what == one ? times * base : base;
  };
  const std::int64_t gpus = grown("gpus", 64);
  const std::int64_t batch = what == "layers" ? 512 : times * 512;
  const input::PlanFile file =
      load("", {"model=llama-2-7b", "cluster=dgx-h100", "tp=4", "pp=4", "sequence=4096",
                "architecture.layers=" + std::to_string(grown("layers", 32)),
                "gpus=" + std::to_string(gpus), "global_batch=" + std::to_string(batch)});
  answer(state, file, engine::Method::fast, memory);
}
using engine::MemoryDetail;
#define GROWTH(of, most)                                           \
  BENCHMARK_CAPTURE(growth, of##_time, #of, MemoryDetail::none)    \
      ->RangeMultiplier(10)                                        \
      ->Range(1, most)                                             \
      ->Unit(benchmark::kMillisecond);                             \
  BENCHMARK_CAPTURE(growth, of##_memory, #of, MemoryDetail::exact) \
      ->RangeMultiplier(10)                                        \
      ->Range(1, most)                                             \
      ->Unit(benchmark::kMillisecond)
GROWTH(microbatches, 100);
GROWTH(layers, 10);
GROWTH(gpus, 100);

}  // namespace

BENCHMARK_MAIN();
