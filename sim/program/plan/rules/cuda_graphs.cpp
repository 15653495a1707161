// Rules of the parts that CUDA graphs launch.
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

// [core 0.15 transformer/transformer_config.py:__post_init__: cuda_graph_scope]
void cuda_graphs(const Plan& plan, Diagnostics& problems) {
  const CudaGraphs& graphs = plan.stack.cuda_graphs;
  if (!graphs.any()) return;
  const auto refuse = [&](bool broken, const char* rule) {
    if (broken) problems.push_back({"cuda_graph_modules", rule});
  };
  const bool mixture = plan.architecture.is_mixture();
  const bool dense = model::mixture_count(plan.architecture) < plan.architecture.layers;
  refuse(graphs.mlp && !dense,
         "all layers have experts in place of an MLP; write moe_router, or leave mlp out");
  refuse((graphs.moe || graphs.router || graphs.preprocess) && !mixture,
         "the model is no mixture of experts; write mlp");
  refuse(graphs.preprocess && !graphs.router && !graphs.moe,
         "moe_preprocess follows the router; write moe_router beside it");
  refuse(graphs.moe && graphs.router, "moe includes the router; leave moe_router out");
  refuse(graphs.moe && !plan.experts.pads_to_capacity,
         "a graph needs the same number of rows in every pass; write pad_to_capacity true, or "
         "moe_router in place of moe");
  refuse(plan.policy.recompute == Recompute::full && (graphs.attention || graphs.mlp),
         "a layer that runs again is not captured; write recompute none or selective");
  refuse(plan.shards_parameters(),
         "graphs are simulated with whole parameters; write data_parallel ddp");
  refuse(graphs.passes && (graphs.attention || graphs.mlp || graphs.moe || graphs.router),
         "full_iteration includes all modules; write it alone");
  refuse(graphs.passes && mixture && !plan.experts.pads_to_capacity,
         "a graph needs the same number of rows in every pass; write pad_to_capacity true");
  refuse(graphs.passes && plan.stack.check_for_nan,
         "the CPU cannot read the loss inside of a graph; write check_for_nan false");
}

}  // namespace sim::program::rules
