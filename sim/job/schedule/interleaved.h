// interleaved.h — the order of microbatches over several chunks of a stage, for schedules that
// interleave. Microbatches pass in groups of G: a group runs chunk 0, then chunk 1, ... Backward
// passes reverse the chunks. The last group may be smaller. With G = 3, m = 5, v = 2:
//
//     microbatch 0 1 2 0 1 2 3 4 3 4
//     chunk      0 0 0 1 1 1 0 0 1 1
//
// Megatron-LM core 0.10, schedules.py:get_schedule_table; groups of p microbatches are those of
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021 (arXiv:2104.04473), section 2.2.
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// G: PipelineShape::group if given, else PyTorch's m / max(1, m / p), else p.
int group_size(const PipelineShape& shape);

// Task number i of one direction.
ScheduledPass nth(const PipelineShape& shape, Pass pass, int i);

// Fails if PyTorch's rounds do not divide the microbatches.
std::string whole_rounds(const PipelineShape& shape);

}  // namespace sim::schedule
