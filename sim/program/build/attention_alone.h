// attention_alone.h — the forward pass of an attention core, call after call, as benchmarks of
// context parallelism time it.
#pragma once

#include "sim/job/context/context.h"
#include "sim/program/build/build.h"
#include "sim/program/layers/attention/head_exchange.h"

namespace sim::program {

// How a benchmark calls attention. Source: feifeibear/long-context-attention at b93c30e,
// benchmark/benchmark_longctx.py and benchmark_longctx_qkvpacked.py.
struct AttentionCalls {
  context::TokenOrder order = context::TokenOrder::contiguous;  // tokens of each rank
  QkvLayout layout = QkvLayout::separate;
  bool synchronised = false;   // the CPU waits for the GPU after each call
  bool self_exchange = false;  // a group of one rank exchanges heads with itself: three copies each
  int calls = 1;               // > 0
};

// A job whose steps run forward passes of the plan's attention core on existing tensors, without
// autograd. REQUIRES: calls.calls > 0.
Job attention_alone(const ValidPlan& plan, const Environment& environment,
                    const AttentionCalls& calls);

}  // namespace sim::program
