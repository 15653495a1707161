// later_plans.h — plans of sample::catalog() that came later: contexts, ZeRO++, optimizers on the
// CPU.
#pragma once

#include <fmt/format.h>

#include "sim/context/context.h"
#include "sim/workload/plan.h"

namespace sample {

// `add(name, plan, change)`, as in sample::catalog().
template <class Add>
void add_later_plans(Add add, const sim::workload::Plan& llama) {
  using namespace sim;
  using namespace sim::workload;
  const Recompute selective = Recompute::selective, full = Recompute::full;
  const AttentionBackend cudnn = AttentionBackend::cudnn;
  for (const context::Method& method : context::catalog())
    for (const int batch : {1, 2})
      for (const int cp : {2, 4, 8})
        for (const Recompute recompute : {Recompute::none, selective, full}) {
          if (method.name == "ring") continue;
          add(fmt::format("context {}", method.name), llama, [&](Plan& p) {
            p.architecture.layers = 2;
            p.mesh.context = method.name;
            p.mesh.cp = cp;
            p.batch.micro_batch = batch;
            p.batch.global_batch *= batch;
            p.policy.recompute = recompute;
            p.stack.attention = batch == 1 ? cudnn : AttentionBackend::flash;
            p.numerics.fp8 = cp == 4;
            p.sharding.data_parallel = cp == 2 ? DataParallelism::fsdp2 : DataParallelism::ddp;
            if (method.exchange == context::Exchange::neighbours) p.mesh.ulysses = 2;
          });
        }
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
    for (const int secondary : {1, 2, 4})
      for (const bool weights : {true, false})
        add("ZeRO++", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.sharding.data_parallel = kind;
          p.sharding.fsdp.secondary = secondary;
          p.sharding.fsdp.quantized_weights = weights;
          p.sharding.fsdp.quantized_gradients = secondary > 1;
        });
  for (const bool overlaps : {true, false})
    for (const double share : {0.5, 1.0})
      add("optimizer on the CPU", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.optimizer = {true, 4, 4, 4, share, overlaps};
      });
}

}  // namespace sample
