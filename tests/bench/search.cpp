// search.cpp — from a plan to its answer, for the runs of the speed budget, and points of a sweep a
// second. The network's answers are warm after the first iteration, as in a sweep.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <stdexcept>

#include "sim/config/plan.h"
#include "sim/search/evaluate.h"

using namespace sim;

namespace {

config::PlanFile load(const std::string& name, const std::vector<std::string>& settings = {}) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 0);
  const std::string path =
      name.empty() ? "" : REHEARSE_SOURCE_DIR "/workloads/" + name + ".textproto";
  const auto plan = config::load_plan(path, settings);
  if (!plan) throw std::runtime_error(plan.errors().front().message);
  return *plan;
}

void answer(benchmark::State& state, const config::PlanFile& file, replay::Method method) {
  search::Sites sites;
  search::Site& site = **sites.of(file.machine);
  replay::Options options;
  options.method = method;
  std::int64_t operations = 0;
  for (auto _ : state) {
    const report::Answer answer = search::evaluate(file.plan, site, options);
    operations += answer.run.events;
    benchmark::DoNotOptimize(answer.run.step_time);
  }
  // Operations that a full replay executes, whether one by one or known to repeat.
  state.counters["operations"] =
      benchmark::Counter(static_cast<double>(operations), benchmark::Counter::kIsRate);
}

void workload(benchmark::State& state, const char* name) {
  answer(state, load(name), replay::Method::fast);
}
BENCHMARK_CAPTURE(workload, 7b_64_gpus, "llama-2-7b-64")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 70b_64_gpus, "llama-3.1-70b-64")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 175b_1024_gpus, "gpt3-175b-1024")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workload, 405b_16384_gpus, "llama-3.1-405b-16384")->Unit(benchmark::kMillisecond);

void reference(benchmark::State& state) {
  answer(state, load("llama-2-7b-64"), replay::Method::reference);
}
BENCHMARK(reference)->Unit(benchmark::kMillisecond);

// Growth: ten times the microbatches, ten times the replicas.
void growth(benchmark::State& state, const std::vector<std::string>& changes) {
  std::vector<std::string> settings = {
      "model=llama-2-7b", "cluster=dgx-h100", "gpus=64", "tp=4", "pp=4",
      "global_batch=512", "sequence=4096"};
  for (const std::string& change : changes) settings.push_back(change);
  answer(state, load("", settings), replay::Method::fast);
}
using Settings = std::vector<std::string>;
BENCHMARK_CAPTURE(growth, base, Settings{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(growth, microbatches_x10, Settings{"global_batch=5120"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(growth, gpus_x10, Settings{"gpus=640", "global_batch=5120"})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
