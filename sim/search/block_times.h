// block_times.h — how long blocks and passes of a job's programs take by themselves, for planners
// that add them up: kernels of the compute queue and the collectives that they wait for.
#pragma once

#include <map>
#include <utility>

#include "sim/replay/replay.h"
#include "sim/workload/program.h"

namespace sim::search {

Duration block_time(const workload::Block& block, const replay::ClassTimes& times);

Duration template_time(const workload::Program& program, const replay::ClassTimes& times,
                       const workload::Template& pattern);

// The template of each kind of pass and chunk that a step runs most often.
std::map<std::pair<workload::PassKind, int>, std::uint32_t> usual_templates(
    const workload::Program& program);

}  // namespace sim::search
