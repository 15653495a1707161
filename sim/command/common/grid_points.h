// grid_points.h — the points of a grid as a sweep takes them.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/input/plan/grid.h"
#include "sim/study/sweep/sweep.h"

namespace sim::command {

// Both outlive the points. Stops where a cluster of the grid cannot be loaded.
study::Points grid_points(const input::Grid& grid, answer::Sites& sites,
                          engine::MemoryDetail memory);

// How a worker answers one.
std::function<answer::Answer(const study::Point&)> evaluation(engine::MemoryDetail memory);

}  // namespace sim::command
