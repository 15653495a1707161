#include "sim/job/schedule/order_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>

#include "sim/job/schedule/placement.h"
#include "sim/job/schedule/timeline.h"

namespace sim::schedule {

namespace {

constexpr std::array<std::string_view, 6> pass_names{"forward", "backward", "input",
                                                     "weight",  "output",   "output gradient"};

std::string_view name_of(Pass pass) {
  return pass_names[static_cast<std::size_t>(pass)];
}

bool is_output(Pass pass) {
  return pass == Pass::output || pass == Pass::output_gradient;
}

std::string place_of_step(std::size_t stage, std::size_t step, const Order& order) {
  return fmt::format("stage {}, step {} of {} ({})", stage, step + 1, order.size(),
                     name(order[step]));
}

// The passes of one stage that have run, by kind and task.
class StageTasks {
 public:
  StageTasks(const Schedule& schedule, const PipelineShape& shape)
      : schedule_(schedule), shape_(shape) {
    for (std::vector<char>& one : done_)
      one.resize(static_cast<std::size_t>(shape.microbatches) * shape.chunks * shape.slices);
  }

  // Runs the next step. Returns the rule that it breaks, or "".
  std::string run(const ScheduledPass& step) {
    if (std::string problem = no_task(step); !problem.empty()) return problem;
    if (std::string problem = no_pass(step.pass); !problem.empty()) return problem;
    char& done = at(step.pass, step);
    if (done) return "the pass runs twice";
    const auto after = [&](Pass before) { return at(before, step) != 0; };
    const bool gradients = step.pass == Pass::backward || step.pass == Pass::input;
    if (gradients && !after(Pass::forward))
      return fmt::format("a {} pass needs the forward pass of its microbatch before it",
                         name_of(step.pass));
    if (gradients && (after(Pass::backward) || after(Pass::input)))
      return "the gradients of inputs are computed twice";
    if (step.pass == Pass::weight && !after(Pass::input))
      return "a weight pass needs its input pass before it";
    if (step.pass == Pass::output_gradient && !after(Pass::output))
      return "an output gradient pass needs its output pass before it";
    done = 1;
    return "";
  }

  // The first task that has not run completely, or "".
  std::string missing() {
    for (int m = 0; m < shape_.microbatches; ++m) {
      for (int c = 0; c < shape_.chunks; ++c)
        for (int s = 0; s < shape_.slices; ++s)
          if (visits(schedule_.placement, shape_, m, c))
            if (std::string what = missing_of({Pass::forward, m, c, s}); !what.empty()) return what;
      if (std::string what = missing_output({Pass::output, m}); !what.empty()) return what;
    }
    return "";
  }

 private:
  char& at(Pass pass, const ScheduledPass& step) {
    const int chunk = is_output(pass) ? 0 : step.chunk, slice = is_output(pass) ? 0 : step.slice;
    return done_[static_cast<std::size_t>(pass)][static_cast<std::size_t>(
        (step.microbatch * shape_.chunks + chunk) * shape_.slices + slice)];
  }

  std::string no_task(const ScheduledPass& step) const {
    const auto within = [](int value, int count) { return value >= 0 && value < count; };
    if (within(step.microbatch, shape_.microbatches) && within(step.chunk, shape_.chunks) &&
        within(step.slice, shape_.slices) &&
        (is_output(step.pass) || visits(schedule_.placement, shape_, step.microbatch, step.chunk)))
      return "";
    return fmt::format(
        "the stage has no such task: microbatch {} of {}, chunk {} of {}, slice {} of {}",
        step.microbatch, shape_.microbatches, step.chunk, shape_.chunks, step.slice, shape_.slices);
  }

  std::string no_pass(Pass pass) const {
    const bool split = pass == Pass::input || pass == Pass::weight;
    if (split && schedule_.splits == Splits::none)
      return fmt::format("an {} pass, but the schedule splits no backward pass", name_of(pass));
    if (pass == Pass::backward && schedule_.splits == Splits::all)
      return "a combined backward pass, but the schedule splits all of them";
    if (is_output(pass) && schedule_.output == Output::last_part)
      return fmt::format("an {} pass, but the last part runs the output layer", name_of(pass));
    return "";
  }

  std::string missing_of(const ScheduledPass& task) {
    const auto text = [&](std::string_view pass) {
      return fmt::format("the {} pass of microbatch {}, chunk {}, slice {} is missing", pass,
                         task.microbatch, task.chunk, task.slice);
    };
    if (!at(Pass::forward, task)) return text("forward");
    if (!at(Pass::backward, task) && !at(Pass::input, task)) return text("backward");
    if (at(Pass::input, task) && !at(Pass::weight, task)) return text("weight");
    return "";
  }

  std::string missing_output(const ScheduledPass& task) {
    if (schedule_.output == Output::last_part) return "";
    const bool gradient = schedule_.output != Output::together;
    if (!at(Pass::output, task) || (gradient && !at(Pass::output_gradient, task)))
      return fmt::format("an output pass of microbatch {} is missing", task.microbatch);
    return "";
  }

  const Schedule& schedule_;
  const PipelineShape& shape_;
  std::array<std::vector<char>, pass_names.size()> done_;
};

// Rule 1: each stage runs each of its tasks once, in an order that its gradients allow.
std::string broken_task(const Schedule& schedule, const PipelineShape& shape,
                        const std::vector<Order>& orders) {
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    const Order& order = orders[stage];
    StageTasks tasks(schedule, shape);
    for (std::size_t step = 0; step < order.size(); ++step)
      if (const std::string problem = tasks.run(order[step]); !problem.empty())
        return place_of_step(stage, step, order) + ": " + problem;
    if (const std::string problem = tasks.missing(); !problem.empty())
      return fmt::format("stage {}: {}", stage, problem);
  }
  return "";
}

// Rule 2: the stages together never wait in a circle.
std::string circle(const Schedule& schedule, const PipelineShape& shape,
                   const std::vector<Order>& orders) {
  const Timeline timeline = run(schedule, shape, orders);
  if (!timeline.deadlock) return "";
  std::string text;
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    const std::size_t next = timeline.rows[stage].size();
    if (next < orders[stage].size())
      text += (text.empty() ? "" : ", ") + place_of_step(stage, next, orders[stage]);
  }
  return text + ": the stages wait for each other";
}

// One message: microbatch, part that sends, slice.
using Message = std::tuple<int, int, int>;
// The messages of one direction between two stages, in the order of the passes of each end.
struct Link {
  std::vector<Message> sent, received;
};
// By whether gradients travel, sender, receiver.
using Links = std::map<std::tuple<bool, int, int>, Link>;

void add_messages(const Schedule& schedule, const PipelineShape& shape, int stage,
                  const ScheduledPass& step, Links& links) {
  const bool forward = step.pass == Pass::forward;
  if (!forward && (step.pass == Pass::weight || is_output(step.pass) || !schedule.gradients_travel))
    return;
  const StageChunk own{stage, step.chunk};
  const int part = part_of(schedule.placement, shape, own);
  const auto message = [&](int from) { return Message{step.microbatch, from, step.slice}; };
  if (!is_first(schedule.placement, shape, own)) {
    const int other = before(schedule.placement, shape, own).stage;
    if (other != stage && forward)
      links[{false, other, stage}].received.push_back(message(part - 1));
    if (other != stage && !forward) links[{true, stage, other}].sent.push_back(message(part));
  }
  if (!is_last(schedule.placement, shape, own)) {
    const int other = behind(schedule.placement, shape, own).stage;
    if (other != stage && forward) links[{false, stage, other}].sent.push_back(message(part));
    if (other != stage && !forward)
      links[{true, other, stage}].received.push_back(message(part + 1));
  }
}

// Rule 3: two neighbours agree on the order of the messages between them.
std::string crossed_messages(const Schedule& schedule, const PipelineShape& shape,
                             const std::vector<Order>& orders) {
  Links links;
  for (std::size_t stage = 0; stage < orders.size(); ++stage)
    for (const ScheduledPass& step : orders[stage])
      add_messages(schedule, shape, static_cast<int>(stage), step, links);
  for (const auto& [ends, link] : links) {
    const auto& [gradients, from, to] = ends;
    for (std::size_t i = 0; i < std::min(link.sent.size(), link.received.size()); ++i) {
      if (link.sent[i] == link.received[i]) continue;
      return fmt::format(
          "message {} of {} from stage {} to stage {}: microbatch {} is sent, and microbatch {} is "
          "received",
          i + 1, gradients ? "gradients" : "activations", from, to, std::get<0>(link.sent[i]),
          std::get<0>(link.received[i]));
    }
  }
  return "";
}

}  // namespace

std::string broken_rule(const Schedule& schedule, const PipelineShape& shape,
                        const std::vector<Order>& orders) {
  if (orders.size() != static_cast<std::size_t>(shape.stages))
    return fmt::format("there are orders for {} stages of {}", orders.size(), shape.stages);
  std::string broken = broken_task(schedule, shape, orders);
  if (broken.empty()) broken = circle(schedule, shape, orders);
  if (broken.empty() && shape.stages > 1) broken = crossed_messages(schedule, shape, orders);
  return broken;
}

}  // namespace sim::schedule
