// step.h — what a rank does outside its microbatches: set-up, begin and end of a training step.
#pragma once

#include <vector>

#include "sim/workload/data_parallel.h"
#include "sim/workload/rank.h"

namespace sim::workload {

// Model, contiguous buffers, optimizer shards, in the order of Megatron-LM's set-up.
std::uint32_t setup_block(Rank& rank, const std::vector<DataParallel*>& chunks);

// zero_grad; later steps dispatch the first parameter gather.
std::uint32_t step_begin(Rank& rank, const std::vector<DataParallel*>& chunks, bool first);

// finalize_model_grads, gradient norm and clipping, Adam (which creates its moments in the first
// step), parameter copies, logging, and the barrier that the iteration timer ends with.
std::uint32_t step_end(Rank& rank, const std::vector<DataParallel*>& chunks, bool first);

// Communicators that the rank's program makes NCCL create.
std::vector<Stream> communicators(const Rank& rank);

}  // namespace sim::workload
