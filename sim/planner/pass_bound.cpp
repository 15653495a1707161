// pass_bound.cpp — a pipeline of passes that take their compute streams' times, and messages that
// take the shortest time of any.
#include <algorithm>
#include <limits>

#include "sim/planner/bounds.h"
#include "sim/schedule/placement.h"

namespace sim::planner {

namespace {

using workload::PassKind;

constexpr std::int64_t not_yet = -1;

// A pass of a stage, or what it does between passes.
struct Item {
  PassKind kind;
  int chunk = 0;
  int microbatch = 0;
  std::int64_t length = 0;
};

// Stages that run their passes in order, each as soon as its input is there.
class Pipeline {
 public:
  Pipeline(const schedule::Schedule& row, const schedule::Shape& shape, std::int64_t message)
      : placement_(row.placement),
        shape_(shape),
        message_(message),
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
        const schedule::Place from =
            schedule::place_of(placement_, shape_, static_cast<int>(source), 0);
        stage.now = std::max(stage.now, ready + (from.stage == number ? 0 : message_));
      }
      stage.now += item.length;
      end_of(forward, part, item.microbatch) = stage.now;
    }
    return stage.next != before;
  }

  schedule::Placement placement_;
  schedule::Shape shape_;
  std::int64_t message_;
  std::size_t parts_, microbatches_;
  std::vector<std::int64_t> ends_;  // of passes, by direction, part and microbatch
  std::vector<Stage> stages_;
};

std::int64_t shortest_message(const replay::Times& times) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const replay::ClassTimes& one : times.classes)
    for (const std::vector<Duration>& batch : one.message)
      for (const Duration message : batch) least = std::min(least, message.ps);
  return least == std::numeric_limits<std::int64_t>::max() ? 0 : least;
}

}  // namespace

std::int64_t step_of_passes(const workload::Job& job, const replay::Times& times,
                            const workload::Plan& plan) {
  Pipeline pipeline(*schedule::find(plan.pipeline.schedule),
                    workload::pipeline_shape(plan, plan.microbatches()), shortest_message(times));
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const workload::Program& program = job.classes[c];
    std::vector<Item>& items = pipeline.items(program.stage);
    if (!items.empty()) continue;
    std::vector<std::int64_t> length;  // by template
    for (const workload::Template& pattern : program.templates) {
      const std::vector<std::int64_t> ends = ends_of_calls(program, times.classes[c], pattern);
      length.push_back(ends.empty() ? 0 : ends.back());
    }
    for (const workload::Pass& pass : program.step) {
      const workload::Template& pattern = program.templates[pass.pattern];
      items.push_back({pattern.kind, pattern.chunk, pass.microbatch, length[pass.pattern]});
    }
  }
  return pipeline.run();
}

std::int64_t FirstBounds::step_of_order(const Core& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  // Orders that go by times, and passes that are split now and then, wait for the programs.
  if (row.by_times || row.splits == schedule::Splits::some) return 0;
  const std::vector<PassTimes> parts = passes_of_parts(core);
  const workload::Plan plan = space_.plan(core, 0);
  const schedule::Shape shape = workload::pipeline_shape(plan, plan.microbatches());
  Pipeline pipeline(row, shape, 0);
  const std::vector<schedule::Order> orders = row.orders(shape);
  for (int stage = 0; stage < core.pp; ++stage) {
    std::vector<Item>& items = pipeline.items(stage);
    for (const schedule::Step& step : orders[static_cast<std::size_t>(stage)]) {
      const auto part = static_cast<std::size_t>(
          schedule::part_of(row.placement, shape, {stage, step.chunk}));
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
