// cuda_graphs_test.cpp — CUDA graphs take launches and Python off the CPU, and nothing else.
#include <catch2/catch.hpp>

#include "sample.h"
#include "sim/program/plan/rules/rules.h"

using namespace sim;
using namespace sim::program;

namespace {

// What a step of a class does.
struct Counts {
  std::int64_t kernels = 0, graphed = 0, allocations = 0, bytes = 0, graphs = 0, copies = 0;
  std::int64_t python = 0;  // halves of layers
};

Counts counts(const Program& program) {
  Counts all;
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op == Op::kernel) {
      const bool copy = program.labels[i.label] == "graph input";
      all.copies += copy;
      all.kernels += !copy;
      all.graphed += (i.flags & graphed) != 0;
    }
    if (i.op == Op::alloc) ++all.allocations, all.bytes += i.value;
    if (i.op != Op::host) return;
    const auto work = static_cast<HostWork>(i.index);
    all.graphs += work == HostWork::graph;
    all.python += 2 * (work == HostWork::layer_forward || work == HostWork::layer_backward) +
                  (work == HostWork::layer_forward_half || work == HostWork::layer_backward_half);
  });
  return all;
}

Counts with(const CudaGraphs& graphs) {
  Plan plan = sample::llama_8b();
  plan.stack.cuda_graphs = graphs;
  return counts(sample::job(plan).classes[0]);
}

}  // namespace

TEST_CASE("program: a graph for each captured half or whole layer, each pass and each microbatch") {
  const Counts eager = with({});
  CHECK(eager.graphed == 0);
  CHECK(eager.graphs == 0);
  const std::int64_t passes = 2 * sample::llama_8b().microbatches() * 32;
  CHECK(eager.python == 2 * passes);
  for (const bool attention : {false, true})
    for (const bool mlp : {false, true}) {
      const Counts all = with({.attention = attention, .mlp = mlp});
      const int halves = attention + mlp;
      CHECK(all.kernels == eager.kernels);
      CHECK(all.allocations == eager.allocations);
      CHECK(all.bytes == eager.bytes);
      CHECK(all.graphs == (halves > 0 ? passes : 0));
      CHECK(all.copies == all.graphs);
      CHECK(all.python == (2 - halves) * passes);
      CHECK((all.graphed > 0) == (halves > 0));
    }
}

TEST_CASE("program: whole passes in graphs launch nothing but messages and the optimizer") {
  Plan plan = sample::llama_8b();
  plan.stack.check_for_nan = false;
  const Counts eager = counts(sample::job(plan).classes[0]);
  plan.stack.cuda_graphs.passes = true;
  const Counts all = counts(sample::job(plan).classes[0]);
  CHECK(all.kernels == eager.kernels);
  CHECK(all.bytes == eager.bytes);
  CHECK(all.python == 0);
  std::int64_t launched = 0;
  sample::each_of_step(sample::job(plan).classes[0], [&](const Instruction& i) {
    launched += i.op == Op::kernel && (i.flags & graphed) == 0 && (i.flags & optimizer_work) == 0;
  });
  CHECK(launched < all.kernels / 100);
}

TEST_CASE("program: graphs that cannot be are refused") {
  const auto refused = [](CudaGraphs graphs, auto change) {
    Plan plan = sample::llama_8b();
    change(plan);
    plan.stack.cuda_graphs = graphs;
    Diagnostics found;
    rules::cuda_graphs(plan, found);
    return found.size();
  };
  const auto as_is = [](Plan&) {};
  CHECK(refused({.attention = true, .mlp = true}, as_is) == 0);
  CHECK(refused({.router = true}, as_is) == 1);
  CHECK(refused({.attention = true}, [](Plan& p) { p.policy.recompute = Recompute::full; }) == 1);
  CHECK(refused({.passes = true}, as_is) == 1);  // the CPU reads the loss
  CHECK(refused({.passes = true}, [](Plan& p) { p.stack.check_for_nan = false; }) == 0);
  CHECK(refused({.attention = true, .passes = true},
                [](Plan& p) { p.stack.check_for_nan = false; }) == 1);
}
