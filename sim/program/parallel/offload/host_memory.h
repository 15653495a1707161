// host_memory.h — what a rank keeps in the CPUs' memory.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// Bytes of the fullest rank. Of each offloaded element: parameter, gradient and two moments in fp32
// [Megatron-LM core 0.14 optimizer/cpu_offloading/hybrid_optimizer.py: pinned copies of both, and
// the CPU optimizer's own state]. REQUIRES: the plan has no problems.
double host_bytes(const Plan& plan);
// Of them the sums of gradients, of parameters in shards: whatever share of the state is there
// [DeepSpeed runtime/zero/stage3.py: grad_partitions_flat_buffer].
double host_gradient_sums(const Plan& plan);

// Pinned bytes of saved tensors that wait there: as many as ever wait at once, in the first step or
// in a later one, for the pool keeps what it once took [Megatron-LM core pipeline_parallel/
// fine_grained_activation_offload.py:OffloadTensorPool; PyTorch's CachingHostAllocator].
std::int64_t host_activations(const Program& program);

// What Adam on the CPU draws from its memory for an element: PyTorch's fused kernel reads 16 bytes
// and writes 12 [Megatron-LM core/optimizer/__init__.py: fused=True]; DeepSpeed first scales the
// gradient, and its new parameter goes up by a blocking copy through pageable memory
// (offload::Traffic).
inline constexpr std::int64_t fused_update_bytes = 28, blocking_update_bytes = 48;

}  // namespace sim::program
