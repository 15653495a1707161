#include <fmt/format.h>

#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program::rules {

void optimizer(const Plan& plan, Diagnostics& problems) {
  if (plan.optimizer.post_validation && !splits_backward(plan))
    problems.push_back({"post_validation",
                        fmt::format("post_validation is zero-bubble's: schedule {} does not split "
                                    "its backward passes; write schedule zb-2p, or leave it out",
                                    plan.pipeline.schedule)});
  if (plan.optimizer.post_validation && plan.shards_parameters())
    problems.push_back({"post_validation",
                        "post_validation takes back a step of Megatron-LM's optimizer, which fsdp "
                        "does not have; write data_parallel ddp, or leave it out"});
  const OptimizerOptions& o = plan.optimizer;
  const bool narrow =
      o.main_parameter_bytes != 4 || o.exp_avg_bytes != 4 || o.exp_avg_sq_bytes != 4;
  deepspeed_zero3(plan, problems);
  const bool offloads =
      o.offload_fraction > 0 && !plan.sharding.deepspeed_optimizer && !plan.shards_parameters();
  if ((narrow || offloads) && !o.precision_aware)
    problems.push_back(
        {offloads ? "optimizer_cpu_offload" : "precision_aware_optimizer",
         "optimizer state in less than fp32, or on the CPU, needs precision_aware_optimizer; write "
         "precision_aware_optimizer: true"});
  if (o.precision_aware && (!plan.sharding.distributed_optimizer || plan.shards_parameters()))
    problems.push_back({"precision_aware_optimizer",
                        "precision_aware_optimizer needs distributed_optimizer; turn it on"});
  if (o.offload_fraction < 0 || o.offload_fraction > 1)
    problems.push_back(
        {"optimizer_offload_fraction",
         fmt::format("optimizer_offload_fraction is {}; it must be 0 to 1", o.offload_fraction)});
}

}  // namespace sim::program::rules
