// worlds.h — all small shapes that a schedule accepts, for tests that loop over the catalog.
#pragma once

#include <functional>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// p <= 5, m <= 11, v <= 3, slices <= 2. Passes take one unit; with slices, each slice does.
inline void for_each_shape(const Schedule& schedule,
                           const std::function<void(const PipelineShape&)>& check) {
  for (int p = 1; p <= 5; ++p)
    for (int m = 1; m <= 11; ++m)
      for (int v = 1; v <= 3; ++v)
        for (int slices = 1; slices <= 2; ++slices) {
          const double unit = slices;
          const PipelineShape shape{.stages = p,
                                    .microbatches = m,
                                    .chunks = v,
                                    .slices = slices,
                                    .times = {.forward = unit, .backward = unit, .weight = unit}};
          if (schedule.problem(shape).empty()) check(shape);
        }
}

inline void for_each_world(
    const std::function<void(const Schedule&, const PipelineShape&)>& check) {
  for (const Schedule& schedule : catalog())
    for_each_shape(schedule, [&](const PipelineShape& shape) { check(schedule, shape); });
}

}  // namespace sim::schedule
