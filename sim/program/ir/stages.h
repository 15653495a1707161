// stages.h — a job with one rank for each stage of its pipeline.
#pragma once

#include "sim/program/build/build.h"

namespace sim::program {

// Whether the job of a plan runs with a single hardware queue (Job::single_queue).
bool single_queue(const Plan& plan);

// Of each stage its first context-parallel rank alone, a class per stage, with the mesh of the
// whole job: for those who ask what a step takes at least. REQUIRES: as build; no routes are drawn.
Job build_stages(const Plan& plan, const Environment& environment);

}  // namespace sim::program
