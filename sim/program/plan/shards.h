// shards.h — switches a plan to sharded parameters (ZeRO-2, ZeRO-3). All of Megatron-LM's data
// parallelism is off: its buffers, overlap, fused accumulation and attention mask.
#pragma once

#include <cassert>

#include "sim/program/plan/plan.h"

namespace sim::program {

// REQUIRES: `how` is not ddp.
inline void shard_parameters(Plan& plan, DataParallelism how, bool reshard_after_forward) {
  assert(how != DataParallelism::ddp);
  plan.sharding.data_parallel = how;
  plan.sharding.fsdp.reshard_after_forward = reshard_after_forward;
  plan.sharding.distributed_optimizer = plan.sharding.overlap_grad_reduce =
      plan.sharding.overlap_param_gather = false;
  plan.stack.gradient_accumulation_fusion = plan.stack.attention_mask = plan.stack.check_for_nan =
      false;
}

}  // namespace sim::program
