// pass_bound.cpp — lower bound on a pipeline in the schedule's order, given only the time of each
// pass on its compute stream.
#include <algorithm>

#include "sim/job/schedule/order_cache.h"
#include "sim/job/schedule/placement.h"
#include "sim/study/plan/bounds.h"

namespace sim::planner {

namespace {

using program::PassKind;

constexpr std::int64_t not_yet = -1;
// Longer orders get no bound here, only from their programs.
constexpr std::int64_t most_passes = 1 << 22;

// A pass of a stage, or its work between passes.
struct Item {
  PassKind kind;
  int chunk = 0;
  int microbatch = 0;
  std::int64_t length = 0;
};

// Runs the passes of all stages in order, each as soon as its input exists.
class Pipeline {
 public:
  Pipeline(const schedule::Schedule& row, const schedule::PipelineShape& shape)
      : placement_(row.placement),
        shape_(shape),
        parts_(static_cast<std::size_t>(schedule::parts(placement_, shape_))),
        microbatches_(static_cast<std::size_t>(shape.microbatches)),
        ends_(2 * parts_ * microbatches_, not_yet),
        stages_(static_cast<std::size_t>(shape.stages)) {}

  std::vector<Item>& items(int stage) { return stages_[static_cast<std::size_t>(stage)].items; }

  std::int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < shape_.stages; ++stage) moved |= advance(stage);
    }
    std::int64_t end = 0;
    for (const Stage& stage : stages_) end = std::max(end, stage.now);
    return end;
  }

 private:
  struct Stage {
    std::vector<Item> items;
    std::size_t next = 0;
    std::int64_t now = 0;
  };

  std::int64_t& end_of(bool forward, std::size_t part, int microbatch) {
    return ends_[((forward ? 0 : parts_) + part) * microbatches_ +
                 static_cast<std::size_t>(microbatch)];
  }

  bool advance(int number) {
    Stage& stage = stages_[static_cast<std::size_t>(number)];
    const std::size_t before = stage.next;
    for (; stage.next < stage.items.size(); ++stage.next) {
      const Item& item = stage.items[stage.next];
      const bool forward = item.kind == PassKind::forward;
      if (!forward && item.kind != PassKind::backward) {
        stage.now += item.length;
        continue;
      }
      const auto part =
          static_cast<std::size_t>(schedule::part_of(placement_, shape_, {number, item.chunk}));
      if (forward ? part > 0 : part + 1 < parts_) {
        const std::size_t source = forward ? part - 1 : part + 1;
        const std::int64_t ready = end_of(forward, source, item.microbatch);
        if (ready == not_yet) break;
        stage.now = std::max(stage.now, ready);
      }
      stage.now += item.length;
      end_of(forward, part, item.microbatch) = stage.now;
    }
    return stage.next != before;
  }

  schedule::Placement placement_;
  schedule::PipelineShape shape_;
  std::size_t parts_, microbatches_;
  std::vector<std::int64_t> ends_;  // ends of passes by direction, part and microbatch
  std::vector<Stage> stages_;
};

}  // namespace

std::int64_t FirstBounds::step_of_order(const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  // Orders that depend on pass times, and partly split backward passes, get no bound here.
  if (row.by_times || row.splits == schedule::Splits::some) return 0;
  if (space_.bases()[core.base].file.plan.optimizer.post_validation) return 0;
  const std::vector<PassTimes> parts = passes_of_parts(core);
  const program::Plan plan = space_.plan(core, 0);
  const schedule::PipelineShape shape = program::pipeline_shape(plan, plan.microbatches());
  Pipeline pipeline(row, shape);
  if (std::int64_t{2} * core.pp * core.chunks * shape.microbatches > most_passes) return 0;
  const schedule::SharedOrders orders = schedule::shared_orders(row, shape);
  for (int stage = 0; stage < core.pp; ++stage) {
    std::vector<Item>& items = pipeline.items(stage);
    for (const schedule::ScheduledPass& step : (*orders)[static_cast<std::size_t>(stage)]) {
      if (step.pass == schedule::Pass::output || step.pass == schedule::Pass::output_gradient)
        continue;
      const auto part =
          static_cast<std::size_t>(schedule::part_of(row.placement, shape, {stage, step.chunk}));
      const bool forward = step.pass == schedule::Pass::forward;
      const bool weight = step.pass == schedule::Pass::weight;
      items.push_back({forward  ? PassKind::forward
                       : weight ? PassKind::weight
                                : PassKind::backward,
                       step.chunk, step.microbatch,
                       forward  ? parts[part].forward
                       : weight ? parts[part].weight
                                : parts[part].backward});
    }
  }
  return pipeline.run();
}

}  // namespace sim::planner
