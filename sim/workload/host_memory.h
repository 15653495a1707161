// host_memory.h — what a rank keeps in the CPUs' memory.
#pragma once

#include "sim/workload/plan.h"

namespace sim::workload {

// Bytes of the fullest rank. Of each offloaded element: parameter, gradient and two moments in fp32
// [Megatron-LM core 0.14 optimizer/cpu_offloading/hybrid_optimizer.py: pinned copies of both, and
// the CPU optimizer's own state]. REQUIRES: the plan has no problems.
double host_bytes(const Plan& plan);

}  // namespace sim::workload
