#include "sim/command/grid_points.h"

#include "sim/command/command.h"

namespace sim::command {

search::Points grid_points(const config::Grid& grid, search::Sites& sites,
                           replay::MemoryDetail memory) {
  return {grid.size(), [&grid, &sites, memory](std::size_t i) {
            const config::GridPoint from = grid.point(i);
            search::Site& site = *need(sites.of(*from.machine));
            search::Point point;
            point.name = from.name;
            point.family = from.family;
            point.cluster = from.machine->cluster.name;
            point.machine = from.machine;
            point.machine_digest = site.digest;
            point.plan = from.plan;
            point.memory = memory;
            point.problems = from.problems;
            if (point.problems.empty()) point.problems = search::problems(point.plan, site);
            return point;
          }};
}

std::function<report::Answer(const search::Point&)> evaluation(search::Sites& sites,
                                                               replay::MemoryDetail memory) {
  return [&sites, memory](const search::Point& point) {
    replay::Options how;
    how.memory = memory;
    return search::evaluate(point.plan, *need(sites.of(*point.machine)), how);
  };
}

}  // namespace sim::command
