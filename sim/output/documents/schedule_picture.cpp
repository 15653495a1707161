#include "sim/output/documents/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/job/schedule/timeline.h"

namespace sim::output {

namespace {

constexpr std::int64_t passes_most = 1'500;

// Lanes of the replayed pipeline have the same names for passes that are the same.
std::string words(const schedule::ScheduledPass& step) {
  using schedule::Pass;
  switch (step.pass) {
    case Pass::forward:
      return "forward";
    case Pass::backward:
      return "backward";
    case Pass::input:
      return "gradients of inputs";
    case Pass::weight:
      return "gradients of weights";
    case Pass::output:
      return "output";
    case Pass::output_gradient:
      return "output gradient";
  }
  return "";
}

std::string label(const schedule::ScheduledPass& step) {
  std::string text = fmt::format("{}", step.microbatch);
  if (step.slice > 0) text += fmt::format(".{}", step.slice);
  return text;
}

// Enough to see the pipeline fill, some passes of its steady state, and drain.
int microbatches_shown(const program::Plan& plan, const schedule::Schedule& schedule) {
  const int wanted = std::min(plan.microbatches(), 2 * plan.mesh.pp);
  const bool possible = schedule.problem(pipeline_shape(plan, wanted)).empty();
  return possible ? wanted : plan.warm_up_microbatches();
}

}  // namespace

SchedulePicture schedule_picture(const program::Plan& plan) {
  SchedulePicture picture;
  Rows& rows = picture.rows;
  rows = {"schedule",
          "the schedule: passes of equal length",
          {{"stage", "stage", "", 0, true},
           {"pass", "pass", "", 0, true},
           {"chunk", "chunk", "", 0},
           {"label", "microbatch", "", 0, true},
           {"begin", "begin", "", 2},
           {"end", "end", "", 2}},
          {},
          true};
  if (plan.mesh.pp < 2) return picture;
  const schedule::Schedule& schedule = *schedule::find(plan.pipeline.schedule);
  const int microbatches = microbatches_shown(plan, schedule);
  if (std::int64_t{microbatches} * plan.mesh.pp > passes_most) return picture;
  schedule::PipelineShape shape = pipeline_shape(plan, microbatches);
  const std::vector<schedule::Order> orders = schedule.orders(shape);
  shape.times = {};
  const schedule::Timeline timeline = run(schedule, shape, orders);
  for (std::size_t stage = 0; stage < timeline.rows.size(); ++stage)
    for (const schedule::Timed& one : timeline.rows[stage]) {
      const int chunk = one.step.chunk;
      rows.cells.push_back({fmt::format("stage {}", stage),
                            words(one.step) + (chunk > 0 ? fmt::format(", chunk {}", chunk) : ""),
                            chunk, label(one.step), one.start, one.end});
    }
  if (std::ssize(rows.cells) > passes_most) rows.cells.clear();
  picture.chart = {
      fmt::format("the schedule {} as papers draw it: {} of {} microbatches, passes of "
                  "equal length",
                  schedule.name, microbatches, plan.microbatches()),
      "schedule",
      "stage",
      "begin",
      "end",
      "pass",
      "label"};
  picture.chart.axis = "time in forward passes";
  return picture;
}

}  // namespace sim::output
