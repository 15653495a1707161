// outline.h — an outline of a pipeline, in which each pass is a single kernel. Sends, early
// receives and waits are the same as in the plan's full program (expand_order.h, pipeline.h). With
// lower bounds on the passes, its replay gives a lower bound on the step. It is far cheaper than a
// full replay: a pass of a plan has hundreds of instructions.
#pragma once

#include "sim/program/build/builder.h"

namespace sim::program {

// The operation that represents a pass of a chunk, and the operation that ends a step. A stage has
// `chunks` chunks. The caller sets the times of these operations.
std::uint32_t outline_pass(schedule::Pass pass, int chunk);
std::uint32_t outline_end(int chunks);

// A later step of the pipeline, with one class for each stage. Operations have no shapes; the
// caller supplies their times. REQUIRES: problems(plan) is empty; `orders` are the plan's; the
// output layer is on the last part.
Job outline(const Plan& plan, const Environment& environment, const Orders& orders);

}  // namespace sim::program
