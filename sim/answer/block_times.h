// block_times.h — durations of blocks and passes as sums of their priced operations.
//
// The balancing code of this room adds these durations up instead of replaying. A duration sums the
// kernels on the compute stream and the collectives that the compute stream waits for. Waiting for
// other ranks is not included.
#pragma once

#include <map>
#include <utility>

#include "sim/engine/replay.h"
#include "sim/program/ir/program.h"

namespace sim::answer {

// Duration of one block.
Duration block_time(const program::Block& block, const engine::ClassTimes& times);

// Duration of one pass: the sum over the blocks that its template calls.
Duration template_time(const program::Program& program, const engine::ClassTimes& times,
                       const program::Template& pattern);

// Index of the template that a step runs most often, for each kind of pass and each chunk.
std::map<std::pair<program::PassKind, int>, std::uint32_t> usual_templates(
    const program::Program& program);

}  // namespace sim::answer
