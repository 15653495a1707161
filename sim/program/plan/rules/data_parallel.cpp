#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program::rules {

namespace {

constexpr int max_prefetch = 6;  // each gather in flight has an event of its own

void zero_plus_plus(const Plan& plan, Diagnostics& problems) {
  const FsdpOptions& fsdp = plan.sharding.fsdp;
  const std::int64_t shards = std::int64_t{plan.mesh.dp} * plan.mesh.cp / fsdp.replicas;
  if (fsdp.secondary < 1 || shards % fsdp.secondary != 0)
    problems.push_back(
        {"fsdp", fmt::format("fsdp.secondary {} does not divide the {} ranks that share one copy "
                             "of the parameters; it may be {}",
                             fsdp.secondary, shards, divisors(shards))});
  if (fsdp.quantized_gradients && (fsdp.secondary == 1 || fsdp.replicas > 1))
    problems.push_back({"fsdp",
                        "fsdp.quantized_gradients exchanges among the neighbours of "
                        "fsdp.secondary first, of one copy; write the GPUs of a node there, and "
                        "fsdp.replicas 1"});
  if (fsdp.quantized_weights && plan.numerics.fp8_parameters)
    problems.push_back({"fsdp",
                        "fsdp.quantized_weights quantises weights of 16 bits; leave "
                        "fp8_parameters out"});
}

void fully_sharded(const Plan& plan, Diagnostics& problems) {
  // torch.distributed.pipelining splits only the backward pass of FSDP2's modules [stage.py:
  // backward_maybe_with_nosync]. The views of FSDP1's flat parameter share one gradient.
  if (plan.sharding.data_parallel == DataParallelism::fsdp1 && splits_backward(plan))
    problems.push_back(
        {"schedule",
         fmt::format("schedule {} splits the backward pass, which fsdp1's flat parameters cannot; "
                     "write data_parallel fsdp2",
                     plan.pipeline.schedule)});
  if (plan.mesh.dp % plan.sharding.fsdp.replicas != 0)
    problems.push_back(
        {"fsdp", fmt::format("fsdp.replicas {} does not divide dp {}; it may be {}",
                             plan.sharding.fsdp.replicas, plan.mesh.dp, divisors(plan.mesh.dp))});
  zero_plus_plus(plan, problems);
  const FsdpOptions& fsdp = plan.sharding.fsdp;
  if (fsdp.main_parameters && (plan.sharding.data_parallel == DataParallelism::fsdp1 ||
                               fsdp.low_precision_parameters || fsdp.fp32_parameters))
    problems.push_back({"fsdp",
                        "fsdp.main_parameters is for shards of 16 bits, each parameter by itself; "
                        "write data_parallel fsdp2, without low_precision_parameters and "
                        "fp32_parameters"});
  for (const auto& [name, depth] : {std::pair{"forward", plan.sharding.fsdp.forward_prefetch},
                                    std::pair{"backward", plan.sharding.fsdp.backward_prefetch}})
    if (depth < 0 || depth > max_prefetch)
      problems.push_back({"fsdp", fmt::format("fsdp.{}_prefetch is {}; it must be 0 to {}", name,
                                              depth, max_prefetch)});
}

}  // namespace

void data_parallel(const Plan& plan, Diagnostics& problems) {
  if (plan.shards_parameters()) return fully_sharded(plan, problems);
  const ShardingPlan& s = plan.sharding;
  const int ranks = plan.mesh.dp * plan.mesh.cp;
  if (s.optimizer_replicas < 1 || ranks % s.optimizer_replicas != 0)
    problems.push_back({"optimizer_replicas",
                        fmt::format("optimizer_replicas {} does not divide dp x cp = {}; it may be "
                                    "{}",
                                    s.optimizer_replicas, ranks, divisors(ranks))});
  if ((s.optimizer_replicas > 1 || s.whole_parameters) && !s.distributed_optimizer)
    problems.push_back({s.whole_parameters ? "whole_parameters" : "optimizer_replicas",
                        "optimizer_replicas and whole_parameters say how the optimizer's state is "
                        "shared; turn distributed_optimizer on"});
  if (s.optimizer_replicas > 1 && plan.architecture.is_mixture())
    problems.push_back({"optimizer_replicas",
                        "experts have one copy of the optimizer's state; write "
                        "optimizer_replicas 1"});
  if (s.whole_parameters && s.overlap_param_gather)
    problems.push_back({"whole_parameters",
                        "whole parameters are sent at the end of a step; turn "
                        "overlap_param_gather off"});
  deepspeed_zero1(plan, problems);
  if (plan.sharding.overlap_param_gather && !plan.sharding.distributed_optimizer)
    problems.push_back({"overlap_param_gather",
                        "overlap_param_gather needs distributed_optimizer (without it no "
                        "parameters are gathered); "
                        "turn it off"});
  if (plan.sharding.overlap_param_gather && plan.sharding.distributed_optimizer &&
      !plan.sharding.overlap_grad_reduce)
    problems.push_back(
        {"overlap_param_gather",
         "overlap_param_gather needs overlap_grad_reduce; turn both on or both off"});
}

}  // namespace sim::program::rules
