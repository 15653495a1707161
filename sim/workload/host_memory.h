// host_memory.h — what a rank keeps in the CPUs' memory.
#pragma once

#include <cstdint>

#include "sim/workload/plan.h"

namespace sim::workload {

// Bytes of the fullest rank. Of each offloaded element: parameter, gradient and two moments in fp32
// [Megatron-LM core 0.14 optimizer/cpu_offloading/hybrid_optimizer.py: pinned copies of both, and
// the CPU optimizer's own state]. REQUIRES: the plan has no problems.
double host_bytes(const Plan& plan);

// What Adam on the CPU draws from its memory for an element: 16 bytes read and 12 written, and what
// was fitted beyond that; the latter where the new parameter goes up by a blocking copy through
// pageable memory [calibration/hosts.csv: pinned_bytes, blocking_bytes].
inline constexpr std::int64_t pinned_update_bytes = 52, blocking_update_bytes = 67;

}  // namespace sim::workload
