#include "sim/workload/pipeline.h"

#include <algorithm>
#include <cassert>

namespace sim::workload {
namespace {

using schedule::Step;
using Kind = schedule::Pass;

enum : std::uint32_t {
  send_forward_bit = 1,
  receive_forward_bit = 2,
  send_backward_bit = 4,
  receive_backward_bit = 8,
  batched_bit = 16,
};

// The order of one stage, with gradients of inputs named as the backward passes that they are.
schedule::Order order_of(const schedule::Schedule& schedule, const schedule::Shape& shape,
                         int stage) {
  schedule::Order order = schedule.search ? schedule.search(shape)[static_cast<std::size_t>(stage)]
                                          : schedule.order(shape, stage);
  for (Step& step : order)
    if (step.pass == Kind::input) step.pass = Kind::backward;
  return order;
}

}  // namespace

Pipeline::Pipeline(Rank& rank, const schedule::Schedule& schedule)
    : rank_(rank), schedule_(schedule), exchange_patterns_(32, -1) {}

Bytes Pipeline::message() const {
  // Sequence-parallel shards travel as they are; without it whole tensors do.
  return Bytes{rank_.dim.residual()};
}

std::uint32_t Pipeline::acquire(Task task) {
  const auto number = static_cast<std::size_t>(task.chunk * microbatches_ + task.microbatch);
  assert(frames_[number] < 0);
  std::uint32_t frame;
  if (free_frames_.empty()) {
    frame = next_frame_++;
  } else {
    frame = free_frames_.front();
    free_frames_.erase(free_frames_.begin());
  }
  frames_[number] = static_cast<std::int32_t>(frame);
  return frame;
}

std::uint32_t Pipeline::frame_of(Task task) {
  const auto number = static_cast<std::size_t>(task.chunk * microbatches_ + task.microbatch);
  assert(frames_[number] >= 0);
  return static_cast<std::uint32_t>(frames_[number]);
}

void Pipeline::push(std::uint32_t pattern, Task task, std::uint32_t frame) {
  Pass pass{};
  pass.pattern = pattern;
  pass.microbatch = task.microbatch;
  pass.frame = frame;
  passes_.push_back(pass);
}

// Every order runs each kind of pass once for each microbatch and chunk.
Position Pipeline::next_position(Kind kind, int chunk) {
  int& count = run_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)];
  ++count;
  return {count == 1, count == microbatches_};
}

void Pipeline::run(Kind kind, Task task, const Patterns& patterns) {
  const std::uint32_t pattern = patterns(kind, task.chunk, next_position(kind, task.chunk));
  const bool receives = kind == Kind::forward && !rank_.is_first_part(task.chunk);
  const bool acquires = kind == Kind::forward && !receives;
  push(pattern, task, acquires ? acquire(task) : frame_of(task));
  passes_.back().acquires = acquires;
  const Kind last = schedule_.splits == schedule::Splits::all ? Kind::weight : Kind::backward;
  if (kind != last) return;
  passes_.back().releases = true;
  free_frames_.push_back(frame_of(task));
  if (++done_ % rank_.plan.pipeline.virtual_stages == 0)
    completed_.push_back(static_cast<std::uint32_t>(passes_.size()));
}

std::uint32_t Pipeline::pattern_of(std::uint32_t key) {
  if (exchange_patterns_[key] >= 0) return static_cast<std::uint32_t>(exchange_patterns_[key]);
  const bool batched = key & batched_bit;
  Emitter e(rank_.tables, "exchange");
  Exchange batch{Stream::pp, {}};
  if (key & receive_forward_bit)
    e.alloc(layer_slot(input), message().n, Category::activations, "received activations");
  if (key & receive_backward_bit)
    e.alloc(frame_slot(incoming_gradient), message().n, Category::communication,
            "received gradient");
  const auto add = [&](std::uint32_t bit, bool send, int offset, std::uint8_t channel, Slot tensor,
                       Stream stream, std::uint8_t event, std::string_view label) {
    if (!(key & bit)) return;
    const Message one{send, offset, channel, message()};
    if (batched) {
      batch.messages.push_back(one);
      e.record_stream(tensor, Stream::pp);
      return;
    }
    e.exchange({stream, {one}}, label, 0, event);
    e.record_stream(tensor, stream);
  };
  add(send_forward_bit, true, 1, 0, fixed_slot(output), Stream::pp_send_forward, send_forward_event,
      "send forward");
  add(receive_forward_bit, false, -1, 0, layer_slot(input), Stream::pp_receive_forward,
      receive_forward_event, "receive forward");
  add(send_backward_bit, true, -1, 1, fixed_slot(sent_gradient), Stream::pp_send_backward,
      send_backward_event, "send backward");
  add(receive_backward_bit, false, 1, 1, frame_slot(incoming_gradient), Stream::pp_receive_backward,
      receive_backward_event, "receive backward");
  if (batched) {
    e.exchange(std::move(batch), "pipeline exchange", joins);
    e.sync_device("pipeline exchange");
  }
  Template t{PassKind::exchange, 0, {}};
  t.calls.push_back({e.finish(), -1, frame_slot_count});
  rank_.program.templates.push_back(std::move(t));
  exchange_patterns_[key] = static_cast<std::int64_t>(rank_.program.templates.size()) - 1;
  return static_cast<std::uint32_t>(exchange_patterns_[key]);
}

void Pipeline::exchange(bool send_forward, bool receive_forward, bool send_backward,
                        bool receive_backward, Task receiver, bool batched) {
  const std::uint32_t key =
      (send_forward ? send_forward_bit : 0u) | (receive_forward ? receive_forward_bit : 0u) |
      (send_backward ? send_backward_bit : 0u) | (receive_backward ? receive_backward_bit : 0u);
  if (key == 0) return;
  const std::uint32_t pattern = pattern_of(key | (batched ? batched_bit : 0u));
  std::uint32_t frame = 0;
  if (receive_forward)
    frame = acquire(receiver);
  else if (receive_backward)
    frame = frame_of(receiver);
  push(pattern, receiver, frame);
  passes_.back().acquires = receive_forward;
}

// deallocate_output_tensor: the sent output becomes a one-element tensor.
void Pipeline::release_output(Task task) {
  if (release_pattern_ < 0) {
    Emitter e(rank_.tables, "deallocate output");
    e.alloc(frame_slot(output_stub), 2, Category::other, "deallocated output");
    e.free(fixed_slot(output));
    Template t{PassKind::exchange, 0, {}};
    t.calls.push_back({e.finish(), -1, frame_slot_count});
    rank_.program.templates.push_back(std::move(t));
    release_pattern_ = static_cast<std::int64_t>(rank_.program.templates.size()) - 1;
  }
  push(static_cast<std::uint32_t>(release_pattern_), task, frame_of(task));
}

std::vector<Pass> Pipeline::passes(const Patterns& patterns, int microbatches) {
  microbatches_ = microbatches;
  const int m = microbatches;
  const schedule::Order order =
      order_of(schedule_, pipeline_shape(rank_.plan, m), rank_.program.stage);
  passes_.clear();
  completed_.clear();
  frames_.assign(static_cast<std::size_t>(m * rank_.plan.pipeline.virtual_stages), -1);
  free_frames_.clear();
  next_frame_ = 0;
  for (std::vector<int>& count : run_)
    count.assign(static_cast<std::size_t>(rank_.plan.pipeline.virtual_stages), 0);
  done_ = 0;
  if (rank_.plan.pipeline.virtual_stages > 1)
    interleaved(order, patterns);
  else if (schedule_.splits == schedule::Splits::all)
    overlapping(order, patterns);
  else
    synchronous(order, patterns);
  rank_.program.frames = std::max(rank_.program.frames, next_frame_);
  // Filling: before the first backward pass. Draining: behind the last forward pass.
  const auto is = [&](const Pass& p, PassKind kind) {
    return rank_.program.templates[p.pattern].kind == kind;
  };
  const auto first_backward = std::find_if(
      passes_.begin(), passes_.end(), [&](const Pass& p) { return is(p, PassKind::backward); });
  const auto last_forward = std::find_if(passes_.rbegin(), passes_.rend(),
                                         [&](const Pass& p) { return is(p, PassKind::forward); });
  // A microbatch is complete for the neighbours when its gradient is on the way.
  for (std::uint32_t& position : completed_)
    while (position < passes_.size() && is(passes_[position], PassKind::exchange)) ++position;
  for (auto it = passes_.begin(); it != passes_.end(); ++it)
    it->steady = it >= first_backward && it < last_forward.base();
  return passes_;
}

void Pipeline::synchronous(const schedule::Order& order, const Patterns& patterns) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Step& step = order[i];
    const Task task{step.microbatch, step.chunk};
    const bool forward = step.pass == Kind::forward;
    // What the previous step's batch did not already bring.
    const bool fused = i > 0 && order[i - 1].pass != step.pass;
    if (!fused)
      exchange(false, forward && sends_backward(task), false, !forward && sends_forward(task), task,
               true);
    run(step.pass, task, patterns);
    const bool last = i + 1 == order.size();
    const bool next_fused = !last && order[i + 1].pass != step.pass;
    const Task next = last ? task : Task{order[i + 1].microbatch, order[i + 1].chunk};
    if (forward) {
      exchange(sends_forward(task), false, false, next_fused && sends_forward(next), next, true);
      if (sends_forward(task)) release_output(task);
    } else {
      exchange(false, next_fused && sends_backward(next), sends_backward(task), false, next, true);
    }
  }
}

void Pipeline::overlapping(const schedule::Order& order, const Patterns& patterns) {
  for (const Step& step : order) {
    const Task task{step.microbatch, step.chunk};
    const bool forward = step.pass == Kind::forward;
    const bool backward = step.pass == Kind::backward;
    exchange(false, forward && sends_backward(task), false, backward && sends_forward(task), task,
             false);
    run(step.pass, task, patterns);
    exchange(forward && sends_forward(task), false, backward && sends_backward(task), false, task,
             false);
    if (forward && sends_forward(task)) release_output(task);
  }
}

void Pipeline::interleaved(const schedule::Order& order, const Patterns& patterns) {
  std::vector<Task> forward, backward;
  for (const Step& step : order)
    (step.pass == Kind::forward ? forward : backward).push_back({step.microbatch, step.chunk});
  const std::size_t total = forward.size();
  std::size_t warmup = 0;
  while (warmup < order.size() && order[warmup].pass == Kind::forward) ++warmup;
  // The order alternates behind the warm-up forwards, so one of them belongs to the first pair.
  if (warmup < total) --warmup;

  // Behind forward pass k a rank asks for the input of pass k + 1, behind backward pass k for the
  // gradient of pass k + 1, unless that pass is an end of the model.
  const auto run_forward = [&](std::size_t k) {
    run(Kind::forward, forward[k], patterns);
    exchange(sends_forward(forward[k]), false, false, false, forward[k], false);
    if (k + 1 < total)
      exchange(false, sends_backward(forward[k + 1]), false, false, forward[k + 1], false);
    if (sends_forward(forward[k])) release_output(forward[k]);
  };
  const auto run_backward = [&](std::size_t k) {
    run(Kind::backward, backward[k], patterns);
    exchange(false, false, sends_backward(backward[k]), false, backward[k], false);
    if (k + 1 < total)
      exchange(false, false, false, sends_forward(backward[k + 1]), backward[k + 1], false);
  };
  exchange(false, !rank_.is_first_part(forward[0].chunk), false, false, forward[0], false);
  for (std::size_t k = 0; k < warmup; ++k) run_forward(k);
  exchange(false, false, false, !rank_.is_last_part(backward[0].chunk), backward[0], false);
  for (std::size_t k = 0; k + warmup < total; ++k) {
    run_forward(k + warmup);
    run_backward(k);
  }
  for (std::size_t k = total - warmup; k < total; ++k) run_backward(k);
}

}  // namespace sim::workload
