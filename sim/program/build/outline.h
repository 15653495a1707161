// outline.h — a pipeline without what its passes are made of: each pass is one kernel, and what
// stages send each other, post early and wait for is as in the programs of the plan
// (expand_order.h, pipeline.h). Who knows what a pass takes at least learns from its replay what a
// step takes at least, for a fraction of the work: that of a plan has hundreds of instructions
// where this has one.
#pragma once

#include "sim/program/build/builder.h"

namespace sim::program {

// The operation that stands for the passes of a chunk, and the one behind all of them, for which a
// stage of so many chunks is given times.
std::uint32_t outline_pass(schedule::Pass pass, int chunk);
std::uint32_t outline_end(int chunks);

// A later step of every stage, one class for each. Operations have no shapes: their times are the
// caller's. REQUIRES: problems(plan) is empty; `orders` are the plan's; the output layer is on the
// last part.
Job outline(const Plan& plan, const Environment& environment, const Orders& orders);

}  // namespace sim::program
