// shards.h — what parameters in shards (ZeRO-2, ZeRO-3) leave of Megatron-LM's data parallelism:
// nothing; its buffers, overlap and fused accumulation are off, and its data loader's mask.
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
