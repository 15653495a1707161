// Time of one time() call: a product over every tile and slice, attention, a kernel bound by
// memory.
#include <benchmark/benchmark.h>

#include "sim/cluster/device/kernel.h"

namespace {

using namespace sim;

device::Gpu gpu() {
  device::Gpu g;
  g.hbm = {2'000'000'000'000};
  g.sms = 100;
  g.bf16_flops = 300e12;
  return g;
}

device::Profile profile() {
  device::Profile p;
  p.kernel_overhead = {2'000'000};
  p.gemm.peaks = {{model::Precision::bf16, 0.8}};
  p.gemm.tiles = {{128, 256, 1},  {256, 128, 1},  {128, 128, 0.9}, {64, 256, 0.7},
                  {256, 64, 0.7}, {64, 128, 0.7}, {128, 64, 0.7},  {64, 64, 0.5}};
  p.gemm.split_k = {1, 2, 3, 4};
  device::AttentionProfile a;
  a.forward = {{{64, 0.5}, {128, 0.6}}, {{64, 0.4}, {128, 0.5}}, 100, 200, 0.5};
  a.backward = a.forward;
  p.attention = {a};
  return p;
}

void run(benchmark::State& state, const model::Operation& operation) {
  const device::Gpu g = gpu();
  const device::Profile p = profile();
  model::Operation o = operation;
  for (auto _ : state) {
    benchmark::DoNotOptimize(o);
    benchmark::DoNotOptimize(device::time(o, g, p));
  }
}

void product(benchmark::State& state) {
  run(state, model::gemm("fc1", 8192, 14336, 4096));
}
void attention(benchmark::State& state) {
  run(state, model::attention("attention", true, 1, 32, 8, 128, 8192, 8192, true));
}
void norm(benchmark::State& state) {
  run(state, model::memory_bound(model::OperationKind::norm, "norm", {134'217'728}));
}
BENCHMARK(product);
BENCHMARK(attention);
BENCHMARK(norm);

}  // namespace

BENCHMARK_MAIN();
