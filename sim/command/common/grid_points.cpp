#include "sim/command/common/grid_points.h"

#include "sim/answer/bounded.h"
#include "sim/command/common/command.h"

namespace sim::command {

study::Points grid_points(const input::Grid& grid, answer::Sites& sites, SweepMemory memory) {
  return {grid.size(), [&grid, &sites, memory](std::size_t i) {
            const input::GridPoint from = grid.point(i);
            answer::Site& site = *need(sites.of(*from.machine));
            study::Point point;
            point.name = from.name;
            point.family = from.family;
            point.settings = from.settings;
            point.counts_all_attention = from.counts_all_attention;
            point.cluster = from.machine->cluster.name;
            point.machine = from.machine;
            point.machine_digest = site.digest;
            point.plan = from.plan;
            point.memory = memory.detail;
            point.peaks = memory.peaks;
            Diagnostics problems = from.problems;
            if (from.valid) {
              const Result<answer::CheckedPlan> checked = answer::check(*from.valid, site);
              if (checked)
                point.checked = *checked;
              else
                problems = checked.errors();
            }
            point.problems = messages(problems);
            return point;
          }};
}

std::function<answer::Answer(const study::Point&)> evaluation(SweepMemory memory) {
  return [memory](const study::Point& point) {
    if (memory.detail == engine::MemoryDetail::bounded)
      return answer::evaluate_bounded(*point.checked);
    engine::Options how;
    how.memory = memory.detail;
    how.peaks_if_out = memory.peaks;
    return answer::evaluate(*point.checked, how);
  };
}

}  // namespace sim::command
