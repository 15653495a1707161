// shards.h — what parameters in shards (ZeRO-2, ZeRO-3) leave of Megatron-LM's data parallelism:
// nothing; its buffers, overlap and fused accumulation are off, and its data loader's mask.
#pragma once

#include <cassert>

#include "sim/workload/plan.h"

namespace sim::workload {

// REQUIRES: `how` is not ddp.
inline void shard_parameters(Plan& plan, DataParallelism how, bool reshard_after_forward) {
  assert(how != DataParallelism::ddp);
  plan.data_parallel = how;
  plan.fsdp.reshard_after_forward = reshard_after_forward;
  plan.distributed_optimizer = plan.overlap_grad_reduce = plan.overlap_param_gather = false;
  plan.gradient_accumulation_fusion = plan.attention_mask = plan.check_for_nan = false;
}

}  // namespace sim::workload
