// stages.h — a job with one rank per pipeline stage, for lower bounds on step time.
//
// The planner (sim/study/plan) calls build_stages for plans with context parallelism: one rank per
// stage is cheaper to replay than all of them. Implemented in sim/program/build/build.cpp.
#pragma once

#include "sim/program/build/build.h"

namespace sim::program {

// Whether the job of a plan runs with a single hardware queue (Job::single_queue).
bool single_queue(const Plan& plan);

// One class per stage: the first context-parallel rank of the stage. The mesh is that of the whole
// job. A replay of the result gives a lower bound on step time.
// REQUIRES: the plan draws no expert routes.
Job build_stages(const ValidPlan& plan, const Environment& environment);

}  // namespace sim::program
