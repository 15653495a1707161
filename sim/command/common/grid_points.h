// grid_points.h — the points of a grid for a sweep.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/input/plan/grid.h"
#include "sim/study/sweep/sweep.h"

namespace sim::command {

// How a sweep replays memory. `peaks`: also the exact peaks of plans that no allocator could save
// (engine::Options::peaks_if_out). Only `exact` memory reads it.
struct SweepMemory {
  engine::MemoryDetail detail = engine::MemoryDetail::exact;
  bool peaks = false;
};

// The points of a grid. Stops if a cluster of the grid cannot be loaded. REQUIRES: grid and sites
// outlive the points.
study::Points grid_points(const input::Grid& grid, answer::Sites& sites, SweepMemory memory);

// The function with which a worker evaluates a point.
std::function<answer::Answer(const study::Point&)> evaluation(SweepMemory memory);

}  // namespace sim::command
