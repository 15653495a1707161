// grid_points.h — the points of a grid as a sweep takes them.
#pragma once

#include "sim/config/grid.h"
#include "sim/search/evaluate.h"
#include "sim/search/sweep.h"

namespace sim::command {

// Both outlive the points. Stops where a cluster of the grid cannot be loaded.
search::Points grid_points(const config::Grid& grid, search::Sites& sites,
                           replay::MemoryDetail memory);

// How a worker answers one.
std::function<report::Answer(const search::Point&)> evaluation(search::Sites& sites,
                                                               replay::MemoryDetail memory);

}  // namespace sim::command
