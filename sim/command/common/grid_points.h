// grid_points.h — the points of a grid for a sweep.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/input/plan/grid.h"
#include "sim/study/sweep/sweep.h"

namespace sim::command {

// The points of a grid. Stops if a cluster of the grid cannot be loaded. REQUIRES: grid and sites
// outlive the points.
study::Points grid_points(const input::Grid& grid, answer::Sites& sites,
                          engine::MemoryDetail memory);

// The function with which a worker evaluates a point.
std::function<answer::Answer(const study::Point&)> evaluation(engine::MemoryDetail memory);

}  // namespace sim::command
