#include "sim/program/plan/schedule_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "sim/job/schedule/schedule.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/replicas.h"

namespace sim::program {
bool splits_backward(const Plan& plan) {
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  return schedule && schedule->splits != schedule::Splits::none;
}

std::string apart(const schedule::Schedule& schedule) {
  if (schedule.output != schedule::Output::last_part) return "it cuts the vocabulary";
  if (schedule.placement == schedule::Placement::two_way) return "it holds every part twice";
  if (schedule.slices > 1) return "it cuts sequences into slices";
  if (!schedule.gradients_travel) return "it trains the parts of the model alone";
  return "";
}

int slice_count(const Plan& plan) {
  const schedule::Schedule* row = schedule::find(plan.pipeline.schedule);
  if (!row || row->slices == 1) return 1;
  const std::size_t given = plan.pipeline.slice_lengths.size();
  return given > 0 ? static_cast<int>(given) : row->slices;
}

std::vector<std::int64_t> slice_lengths(const Plan& plan) {
  const int count = slice_count(plan);
  if (count > 1 && !plan.pipeline.slice_lengths.empty()) return plan.pipeline.slice_lengths;
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), plan.batch.sequence / count);
}

bool has_mirrors(const Plan& plan) {
  const schedule::Schedule* row = schedule::find(plan.pipeline.schedule);
  return row && row->placement == schedule::Placement::two_way;
}

}  // namespace sim::program
