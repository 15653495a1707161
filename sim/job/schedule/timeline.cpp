#include "sim/job/schedule/timeline.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cmath>

#include "sim/job/schedule/placement.h"

namespace sim::schedule {
namespace {

constexpr double never = -1;

// The state of a run: the end of each task, and the progress of each stage.
class Run {
 public:
  Run(const Schedule& schedule, const PipelineShape& shape, const std::vector<Order>& orders)
      : schedule_(schedule),
        shape_(shape),
        orders_(orders),
        parts_(parts(schedule.placement, shape)),
        units_(static_cast<std::size_t>(shape.microbatches * shape.slices)),
        forward_(static_cast<std::size_t>(parts_) * units_, never),
        input_(forward_.size(), never),
        outputs_(static_cast<std::size_t>(shape.microbatches)),
        output_gradients_(outputs_.size()),
        meetings_(outputs_.size()),
        next_(orders.size(), 0),
        free_(orders.size(), 0) {
    timeline_.rows.resize(orders.size());
  }

  Timeline finish();

 private:
  // Passes that every stage runs for a microbatch: the number done (or arrived), and the latest
  // time.
  struct Gathering {
    int count = 0;
    double time = 0;
    void add(double at) {
      ++count;
      time = std::max(time, at);
    }
  };

  std::size_t index(int part, const ScheduledPass& step) const {
    return static_cast<std::size_t>(part) * units_ +
           static_cast<std::size_t>(step.microbatch * shape_.slices + step.slice);
  }
  double duration(Pass pass) const;
  double arrival(const std::vector<double>& ended, StageChunk from, StageChunk to,
                 const ScheduledPass& step) const;
  double all_of(const Gathering& gathering) const {
    return gathering.count == shape_.stages ? gathering.time + shape_.times.transfer : never;
  }
  // The time at which all inputs of a step exist, or `never`.
  double ready(int stage, const ScheduledPass& step) const;
  double gradient_ready(StageChunk place, const ScheduledPass& step) const;
  bool waits_for_others(std::size_t stage, const ScheduledPass& step);
  bool advance(std::size_t stage);
  void measure();

  const Schedule& schedule_;
  const PipelineShape& shape_;
  const std::vector<Order>& orders_;
  int parts_;
  std::size_t units_;
  std::vector<double> forward_, input_;  // by part, microbatch and slice
  std::vector<Gathering> outputs_, output_gradients_, meetings_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::vector<std::int64_t> met_;  // by stage: the barrier that it waits at
  Timeline timeline_;
};

double Run::duration(Pass pass) const {
  const Times& t = shape_.times;
  switch (pass) {
    case Pass::forward:
      return t.forward / shape_.slices;
    case Pass::backward:
      return (t.backward + t.weight) / shape_.slices;
    case Pass::input:
      return t.backward / shape_.slices;
    case Pass::weight:
      return t.weight / shape_.slices;
    case Pass::output:
    case Pass::output_gradient:
      return t.output;
  }
  return 0;
}

double Run::arrival(const std::vector<double>& ended, StageChunk from, StageChunk to,
                    const ScheduledPass& step) const {
  const double end = ended[index(part_of(schedule_.placement, shape_, from), step)];
  return end == never ? never : end + (from.stage == to.stage ? 0 : shape_.times.transfer);
}

double Run::gradient_ready(StageChunk place, const ScheduledPass& step) const {
  const std::size_t own = index(part_of(schedule_.placement, shape_, place), step);
  if (forward_[own] == never) return never;
  double from_behind = 0;
  if (!is_last(schedule_.placement, shape_, place)) {
    if (schedule_.gradients_travel)
      from_behind = arrival(input_, behind(schedule_.placement, shape_, place), place, step);
  } else if (schedule_.output != Output::last_part) {
    const auto& last = schedule_.output == Output::two_barriers ? output_gradients_ : outputs_;
    from_behind = all_of(last[static_cast<std::size_t>(step.microbatch)]);
  }
  return from_behind == never ? never : std::max(forward_[own], from_behind);
}

double Run::ready(int stage, const ScheduledPass& step) const {
  const StageChunk place{stage, step.chunk};
  const int part = part_of(schedule_.placement, shape_, place);
  const auto microbatch = static_cast<std::size_t>(step.microbatch);
  switch (step.pass) {
    case Pass::forward:
      return part == 0 ? 0
                       : arrival(forward_, before(schedule_.placement, shape_, place), place, step);
    case Pass::backward:
    case Pass::input:
      return gradient_ready(place, step);
    case Pass::weight:
      return input_[index(part, step)];
    case Pass::output: {
      const StageChunk last = place_of(schedule_.placement, shape_, parts_ - 1, step.chunk);
      return arrival(forward_, last, place, step);
    }
    case Pass::output_gradient:
      return all_of(outputs_[microbatch]);
  }
  return never;
}

// If all stages run a pass at the same time, the last stage to arrive starts it.
bool Run::waits_for_others(std::size_t stage, const ScheduledPass& step) {
  if (step.pass != Pass::output || schedule_.output != Output::together) return false;
  met_.resize(orders_.size(), -1);
  Gathering& meeting = meetings_[static_cast<std::size_t>(step.microbatch)];
  if (met_[stage] != step.microbatch) {
    met_[stage] = step.microbatch;
    meeting.add(std::max(free_[stage], ready(static_cast<int>(stage), step)));
  }
  free_[stage] = std::max(free_[stage], meeting.time);
  return meeting.count < shape_.stages;
}

// Runs the stage's next step if its inputs are known.
bool Run::advance(std::size_t stage) {
  if (next_[stage] == orders_[stage].size()) return false;
  const ScheduledPass& step = orders_[stage][next_[stage]];
  const double inputs = ready(static_cast<int>(stage), step);
  if (inputs == never || waits_for_others(stage, step)) return false;
  const double start = std::max(free_[stage], inputs);
  const double end = start + duration(step.pass);
  const int part =
      part_of(schedule_.placement, shape_, StageChunk{static_cast<int>(stage), step.chunk});
  const auto microbatch = static_cast<std::size_t>(step.microbatch);
  if (step.pass == Pass::forward) forward_[index(part, step)] = end;
  if (step.pass == Pass::backward || step.pass == Pass::input) input_[index(part, step)] = end;
  if (step.pass == Pass::output) outputs_[microbatch].add(end);
  if (step.pass == Pass::output_gradient) output_gradients_[microbatch].add(end);
  timeline_.rows[stage].push_back({step, start, end});
  free_[stage] = end;
  ++next_[stage];
  return true;
}

void Run::measure() {
  double first = 0, last = 0;
  bool any = false;
  for (const auto& row : timeline_.rows) {
    double busy = 0;
    int live = 0, most = 0;
    for (const Timed& timed : row) {
      busy += timed.end - timed.start;
      if (timed.step.pass == Pass::forward) most = std::max(most, ++live);
      if (timed.step.pass == Pass::backward || timed.step.pass == Pass::weight) --live;
    }
    timeline_.busy.push_back(busy);
    timeline_.live.push_back(most);
    if (row.empty()) continue;
    timeline_.span = std::max(timeline_.span, row.back().end - row.front().start);
    first = any ? std::min(first, row.front().start) : row.front().start;
    last = std::max(last, row.back().end);
    any = true;
  }
  timeline_.makespan = last - first;
}

Timeline Run::finish() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < orders_.size(); ++stage)
      while (advance(stage)) moved = true;
    for (std::size_t stage = orders_.size(); stage-- > 0;)
      while (advance(stage)) moved = true;
  }
  for (std::size_t stage = 0; stage < orders_.size(); ++stage)
    timeline_.deadlock |= next_[stage] < orders_[stage].size();
  measure();
  return std::move(timeline_);
}

char letter(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return 'F';
    case Pass::backward:
      return 'D';
    case Pass::input:
      return 'B';
    case Pass::weight:
      return 'W';
    case Pass::output:
      return 'S';
    case Pass::output_gradient:
      return 'T';
  }
  return '?';
}

char letter(const ScheduledPass& step) {
  const char big = letter(step.pass);
  return step.chunk == 1 ? static_cast<char>(std::tolower(big)) : big;
}

}  // namespace

double Timeline::bubble_percent() const {
  if (makespan <= 0) return 0;
  double sum = 0;
  for (const double one : busy) sum += one;
  return 100 * (1 - sum / static_cast<double>(busy.size()) / makespan);
}

Timeline run(const Schedule& schedule, const PipelineShape& shape,
             const std::vector<Order>& orders) {
  assert(schedule.problem(shape).empty());
  return Run(schedule, shape, orders).finish();
}

Timeline run(const Schedule& schedule, const PipelineShape& shape) {
  return run(schedule, shape, schedule.orders(shape));
}

double in_stages(const Schedule& schedule, const PipelineShape& shape, int live) {
  return static_cast<double>(live) * shape.stages /
         (static_cast<double>(parts(schedule.placement, shape)) * shape.slices);
}

std::string name(const ScheduledPass& step) {
  std::string text = letter(step) + std::to_string(step.microbatch);
  if (step.slice > 0) text += "." + std::to_string(step.slice);
  if (step.chunk > 1) text += ":" + std::to_string(step.chunk);
  return text;
}

std::string draw(const Timeline& timeline, double unit) {
  assert(unit > 0);
  const auto column = [&](double time) {
    return static_cast<std::size_t>(std::llround(time / unit));
  };
  std::string out;
  for (const auto& row : timeline.rows) {
    std::string letters(column(timeline.makespan), '.'), chunks(letters.size(), ' ');
    int most = 0;
    for (const Timed& timed : row) {
      const std::size_t end = std::min(column(timed.end), letters.size());
      for (std::size_t i = column(timed.start); i < end; ++i) {
        letters[i] = i == column(timed.start) ? letter(timed.step) : '-';
        chunks[i] = static_cast<char>(timed.step.chunk < 10 ? '0' + timed.step.chunk
                                                            : 'a' + (timed.step.chunk - 10) % 26);
      }
      most = std::max(most, timed.step.chunk);
    }
    out += letters + "\n";
    if (most > 1) out += chunks.substr(0, chunks.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace sim::schedule
