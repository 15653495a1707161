// host_memory.h — the CPU memory that a rank uses.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// CPU bytes of the rank with the most. Each offloaded element has a parameter, a gradient and two
// moments in fp32 [Megatron-LM core 0.14 optimizer/cpu_offloading/hybrid_optimizer.py: pinned
// copies of both, and the CPU optimizer's own state]. REQUIRES: the plan has no problems.
double host_bytes(const Plan& plan);
// The part of host_bytes() that holds sums of gradients, for sharded parameters. It does not depend
// on the offloaded share of the state [DeepSpeed runtime/zero/stage3.py:
// grad_partitions_flat_buffer].
double host_gradient_sums(const Plan& plan);

// Pinned bytes of offloaded activations: the peak over the first and a later step, because the pool
// never shrinks [Megatron-LM core pipeline_parallel/
// fine_grained_activation_offload.py:OffloadTensorPool; PyTorch's CachingHostAllocator].
std::int64_t host_activations(const Program& program);

// Bytes of CPU memory traffic for each element that Adam updates on the CPU. PyTorch's fused kernel
// reads 16 bytes and writes 12 [Megatron-LM core/optimizer/__init__.py: fused=True]. DeepSpeed
// first scales the gradient, and copies the new parameter up through pageable memory
// (offload::Traffic).
inline constexpr std::int64_t fused_update_bytes = 28, blocking_update_bytes = 48;

}  // namespace sim::program
