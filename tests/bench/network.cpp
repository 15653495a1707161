// How long the network takes to answer: building routes, the first question about a layout, and the
// same question again.
#include "sim/cluster/network/network.h"

#include <benchmark/benchmark.h>

#include "sim/cluster/topology/routes.h"
#include "sim/job/mesh/communicators.h"
#include "tests/cluster/network/profiles.h"

namespace {

using namespace sim;
using namespace sim::network;
using collective::Kind;
using mesh::Communicator;

topology::Cluster cluster(int gpus, double oversubscription = 1.0) {
  topology::Cluster c = cluster_of(h100_8ndr, (gpus + 7) / 8);
  c.fabric = {topology::FabricKind::rail_optimised, 32, oversubscription, {}, {}};
  return c;
}

SolverOptions no_cache(bool reduce = true) {
  SolverOptions options;
  options.cache = "";
  options.reduce = reduce;
  return options;
}

// Graph and routes of a cluster of that many GPUs.
void platform(benchmark::State& state) {
  const topology::Cluster c = cluster(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    topology::Routes routes(c);
    benchmark::DoNotOptimize(routes.link_count());
  }
}
BENCHMARK(platform)->Arg(64)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// First all-reduce of a new process over all data-parallel groups at once, tp 8.
void first_answer(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  const Groups groups{mesh::groups(Communicator::dp, {.tp = 8, .dp = gpus / 8})};
  for (auto _ : state) {
    Network network(cluster(gpus), ideal_profile(true), no_cache());
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, groups, Bytes{1 << 30}));
  }
}
BENCHMARK(first_answer)->Arg(16)->Arg(64)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// One group of all GPUs, a GiB.
void one_group(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  const Groups groups{mesh::groups(Communicator::world, {.tp = 8, .dp = gpus / 8})};
  for (auto _ : state) {
    Network network(cluster(gpus), ideal_profile(true), no_cache());
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, groups, Bytes{1 << 30}));
  }
}
BENCHMARK(one_group)->Arg(64)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// What pricing a job asks of a new process: tp 8, pp 16, the rest dp; every edge of the pipeline.
void whole_job(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  const mesh::Degrees degrees{.tp = 8, .dp = gpus / 128, .pp = 16};
  for (auto _ : state) {
    Network network(cluster(gpus), ideal_profile(true), no_cache());
    const Groups tp{mesh::groups(Communicator::tp, degrees)};
    const Groups dp{mesh::groups(Communicator::dp, degrees)};
    const Groups world{mesh::groups(Communicator::world, degrees)};
    for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter}) {
      benchmark::DoNotOptimize(network.duration(kind, tp, Bytes{64 << 20}));
      benchmark::DoNotOptimize(network.duration(kind, dp, Bytes{256 << 20}));
    }
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, world, Bytes{4}));
    for (int stage = 0; stage + 1 < degrees.pp; ++stage) {
      for (const auto& [from, to] : {std::pair{stage, stage + 1}, {stage + 1, stage}}) {
        const Groups pipelines = mesh::groups(mesh::Communicator::pp, degrees);
        const Groups pairs = mesh::stage_pairs(from, to, pipelines);
        benchmark::DoNotOptimize(network.duration(Kind::send_receive, pairs, Bytes{64 << 20}));
      }
    }
  }
}
BENCHMARK(whole_job)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// The same question to SimGrid without merging; the helper is running.
void simgrid(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  const Groups groups{mesh::groups(Communicator::dp, {.tp = 8, .dp = gpus / 8})};
  for (auto _ : state) {
    Network network(cluster(gpus), ideal_profile(true), no_cache(false));
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, groups, Bytes{1 << 30}));
  }
}
BENCHMARK(simgrid)->Arg(16)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

// A question that was asked before, by its groups and by their remembered name.
void memo_hit(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  Network network(cluster(gpus), ideal_profile(true), no_cache());
  const Groups groups{mesh::groups(Communicator::dp, {.tp = 8, .dp = gpus / 8})};
  for (auto _ : state) {
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, groups, Bytes{1 << 30}));
  }
}
BENCHMARK(memo_hit)->Arg(64)->Arg(1024);

void remembered_hit(benchmark::State& state) {
  Network network(cluster(1024), ideal_profile(true), no_cache());
  const auto id = network.remember({mesh::groups(Communicator::dp, {.tp = 8, .dp = 128})});
  for (auto _ : state) {
    benchmark::DoNotOptimize(network.duration(Kind::all_reduce, id, Bytes{1 << 30}));
  }
}
BENCHMARK(remembered_hit);

}  // namespace

BENCHMARK_MAIN();
