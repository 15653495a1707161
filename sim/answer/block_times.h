// block_times.h — how long blocks and passes of a job's programs take by themselves, for planners
// that add them up: kernels of the compute queue and the collectives that they wait for.
#pragma once

#include <map>
#include <utility>

#include "sim/engine/replay.h"
#include "sim/program/ir/program.h"

namespace sim::answer {

Duration block_time(const program::Block& block, const engine::ClassTimes& times);

Duration template_time(const program::Program& program, const engine::ClassTimes& times,
                       const program::Template& pattern);

// The template of each kind of pass and chunk that a step runs most often.
std::map<std::pair<program::PassKind, int>, std::uint32_t> usual_templates(
    const program::Program& program);

}  // namespace sim::answer
