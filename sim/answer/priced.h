// priced.h — a job on a cluster: the times of its operations, and the memory that it finds.
#pragma once

#include "sim/answer/site.h"
#include "sim/engine/replay.h"

namespace sim::answer {

// engine::price with the GPUs, profile and network of the cluster.
engine::Times price_of(const program::Job& job, const Site& site);
// engine::outside_memory with the same. REQUIRES: `job` is of `plan`.
engine::Memory memory_of(const program::Job& job, const program::Plan& plan, const Site& site);

}  // namespace sim::answer
