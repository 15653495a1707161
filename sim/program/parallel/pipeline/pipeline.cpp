#include "sim/program/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <cassert>

#include "sim/job/schedule/placement.h"

namespace sim::program {
namespace {

using schedule::ScheduledPass;

// Streams and events of messages that travel beside the passes. One set is for chunks whose
// activations travel from the first stage to the last, one for the opposite direction.
struct MessageStream {
  Stream stream;
  std::uint8_t event;
};
struct Lanes {
  MessageStream send_forward, receive_forward, send_backward, receive_backward;
};
constexpr Lanes downward{{Stream::pp_send_forward, send_forward_event},
                         {Stream::pp_receive_forward, receive_forward_event},
                         {Stream::pp_send_backward, send_backward_event},
                         {Stream::pp_receive_backward, receive_backward_event}};
constexpr Lanes upwards{{Stream::pp_send_forward_up, send_forward_up_event},
                        {Stream::pp_receive_forward_up, receive_forward_up_event},
                        {Stream::pp_send_backward_up, send_backward_up_event},
                        {Stream::pp_receive_backward_up, receive_backward_up_event}};

// Whether the input of a pass comes from another stage.
bool receives(const Rank& rank, int chunk, bool forward) {
  if (forward ? rank.is_first_part(chunk) : rank.has_loss(chunk)) return false;
  const schedule::Placement placement = rank.pipeline_schedule().placement;
  const schedule::PipelineShape shape = pipeline_shape(rank.plan, 1);
  const schedule::StageChunk own{rank.program.stage, chunk};
  return (forward ? before(placement, shape, own) : behind(placement, shape, own)).stage !=
         own.stage;
}

// A stage with its own loss sends the tensor that its frame keeps for the loss.
bool sends_residual(const Rank& rank) {
  return !rank.pipeline_schedule().gradients_travel;
}

constexpr std::size_t message_kinds = 32;  // number of sets of Messages

}  // namespace

void wait_for_messages(Emitter& e, const Rank& rank, int chunk, bool forward) {
  const schedule::Wire& wire = rank.pipeline_schedule().wire;
  if (wire.batched || rank.plan.mesh.pp == 1) return;
  const bool up =
      rank.pipeline_schedule().placement != schedule::Placement::round_robin && chunk == 1;
  const Lanes& message_streams = up ? upwards : downward;
  if (wire.waits_for_sends)
    e.wait(forward ? downward.send_forward.event : downward.send_backward.event);
  if (receives(rank, chunk, forward))
    e.wait(forward ? message_streams.receive_forward.event
                   : message_streams.receive_backward.event);
}

Pipeline::Pipeline(Rank& rank)
    : rank_(rank),
      slices_(slice_count(rank.plan)),
      tensors_(rank),
      exchange_patterns_(message_kinds * static_cast<std::size_t>(slices_), -1) {}

Bytes Pipeline::message() const {
  // Sequence-parallel shards are sent as they are; otherwise whole tensors are sent.
  return Bytes{rank_.dim.residual()};
}

std::uint32_t Pipeline::acquire(const ScheduledPass& task) {
  assert(frames_[number(task)] < 0);
  std::uint32_t frame;
  if (free_frames_.empty()) {
    frame = next_frame_++;
  } else {
    frame = free_frames_.front();
    free_frames_.pop_front();
  }
  frames_[number(task)] = static_cast<std::int32_t>(frame);
  return frame;
}

std::uint32_t Pipeline::frame_of(const ScheduledPass& task) {
  assert(frames_[number(task)] >= 0);
  return static_cast<std::uint32_t>(frames_[number(task)]);
}

void Pipeline::push(std::uint32_t pattern, const ScheduledPass& task, std::uint32_t frame) {
  Pass pass{};
  pass.pattern = pattern;
  pass.microbatch = task.microbatch;
  pass.frame = frame;
  passes_.push_back(pass);
}

void Pipeline::run(const StageAction& act, const Patterns& patterns) {
  const ScheduledPass& step = act.step;
  const std::uint32_t pattern = patterns(act);
  const bool acquires = !has_frame(step);
  push(pattern, step, acquires ? acquire(step) : frame_of(step));
  passes_.back().acquires = acquires;
  if (step.pass == schedule::Pass::forward && rank_.has_loss(step.chunk) &&
      rank_.keeps_output(step.chunk))
    keep(StageTensors::kept_output, step);
  if (step.pass == schedule::Pass::backward || step.pass == schedule::Pass::input)
    went_back_ = step;
  if (!act.completes) return;
  passes_.back().releases = true;
  free_frames_.push_back(frame_of(step));
  if (++done_ % rank_.plan.tasks_per_microbatch() == 0)
    completed_.push_back(static_cast<std::uint32_t>(passes_.size()));
}

std::uint32_t Pipeline::pattern_of(std::int64_t& written, std::string_view name,
                                   const std::function<void(Emitter&)>& write) {
  if (written >= 0) return static_cast<std::uint32_t>(written);
  Emitter e(rank_.tables, std::string(name));
  write(e);
  Template t{PassKind::exchange, 0, {}};
  t.calls.push_back({e.finish(), -1, frame_slot_count});
  rank_.program.templates.push_back(std::move(t));
  written = static_cast<std::int64_t>(rank_.program.templates.size()) - 1;
  return static_cast<std::uint32_t>(written);
}

std::uint32_t Pipeline::pattern_of(StageTensors::Kind kind, const ScheduledPass& task,
                                   std::string_view name,
                                   const std::function<void(Emitter&, Slot)>& write) {
  const Slot slot = tensors_.slot(kind, task);
  std::int64_t& written = tensor_patterns_.try_emplace({kind, slot.index}, -1).first->second;
  return pattern_of(written, name, [&](Emitter& e) { write(e, slot); });
}

// A frame holds a placeholder element if the received tensor lies in the stage's buffer.
void Pipeline::hold_place(Emitter& e, Slot slot) const {
  e.alloc(slot, rank_.dim.element, Category::other, "place of a receive buffer");
}

// A tensor of the task, in the frame or in the stage, is kept until the next step.
void Pipeline::keep(StageTensors::Kind kind, const ScheduledPass& task) {
  const bool output_here = kind == StageTensors::kept_output;
  const Slot from = !output_here                 ? fixed_slot(sent_gradient)
                    : rank_.has_loss(task.chunk) ? frame_slot(output_stub)
                                                 : fixed_slot(output);
  const std::string_view name = output_here ? "keep output" : "keep input gradient";
  const std::uint32_t pattern =
      pattern_of(kind, task, name, [&](Emitter& e, Slot kept) { e.move(from, kept); });
  push(pattern, task, output_here ? frame_of(task) : 0);
}

std::uint32_t Pipeline::exchange_pattern(std::uint32_t messages) {
  const std::size_t of_slice = message_kinds * static_cast<std::size_t>(rank_.slice());
  return pattern_of(exchange_patterns_[of_slice + messages], "exchange", [&](Emitter& e) {
    const bool batched = rank_.pipeline_schedule().wire.batched;
    const bool up = messages & upward;
    const Lanes& message_streams = up ? upwards : downward;
    const int behind = up ? -1 : 1;  // number of stages away
    Exchange batch{Stream::pp, {}};
    const bool buffers = tensors_.exist();
    if (buffers) {
      if (messages & receive_forward) hold_place(e, layer_slot(input));
      if (messages & receive_backward) hold_place(e, frame_slot(incoming_gradient));
    } else {
      if (messages & receive_forward)
        e.alloc(layer_slot(input), message().n, Category::activations, "received activations");
      if (messages & receive_backward)
        e.alloc(frame_slot(incoming_gradient), message().n, Category::communication,
                "received gradient");
    }
    const auto add = [&](std::uint32_t which, bool send, int offset, std::uint8_t channel,
                         Slot tensor, const MessageStream& message_stream, std::string_view label) {
      if (!(messages & which)) return;
      const Message one{send, offset, channel, message()};
      if (batched)
        batch.messages.push_back(one);
      else
        e.exchange({message_stream.stream, {one}}, label, 0, message_stream.event);
      if (send || !buffers) e.record_stream(tensor, batched ? Stream::pp : message_stream.stream);
    };
    // A tensor that the stage's own loss also needs stays where the loss expects it.
    const bool own_loss = rank_.has_loss(0) && !rank_.is_last_part(0);
    const Slot sent = own_loss ? layer_slot(input, static_cast<std::uint32_t>(rank_.layers(0)))
                               : fixed_slot(output);
    add(send_forward, true, behind, 0, sent, message_streams.send_forward, "send forward");
    add(receive_forward, false, -behind, 0, layer_slot(input), message_streams.receive_forward,
        "receive forward");
    add(send_backward, true, -behind, 1, fixed_slot(sent_gradient), message_streams.send_backward,
        "send backward");
    add(receive_backward, false, behind, 1, frame_slot(incoming_gradient),
        message_streams.receive_backward, "receive backward");
    if (!batched) return;
    e.exchange(std::move(batch), "pipeline exchange", joins);
    if (!by_torch()) e.sync_device("pipeline exchange");
  });
}

void Pipeline::exchange(const StageAction& act) {
  rank_.turn_to(act.step.slice);
  const std::uint32_t pattern = exchange_pattern(act.messages);
  const bool acquires = (act.messages & receive_forward) && !has_frame(act.step);
  std::uint32_t frame = 0;
  if (acquires)
    frame = acquire(act.step);
  else if ((act.messages & (receive_forward | receive_backward)) || sends_residual(rank_))
    frame = frame_of(act.step);
  push(pattern, act.step, frame);
  passes_.back().acquires = acquires;
  if ((act.messages & send_backward) && tensors_.keeps_gradient(went_back_.chunk))
    keep(StageTensors::kept_gradient, went_back_);
}

// deallocate_output_tensor: the sent output becomes a one-element tensor. PyTorch's stages keep the
// output itself for the backward pass.
void Pipeline::release(const StageAction& act) {
  if (rank_.keeps_output(act.step.chunk)) return keep(StageTensors::kept_output, act.step);
  const std::uint32_t pattern = pattern_of(release_pattern_, "deallocate output", [&](Emitter& e) {
    if (by_torch()) return e.move(fixed_slot(output), frame_slot(output_stub));
    e.alloc(frame_slot(output_stub), 2, Category::other, "deallocated output");
    e.free(fixed_slot(output));
  });
  push(pattern, act.step, frame_of(act.step));
}

// The next chunk takes over the output itself; the pass that produced it keeps one element. A
// gradient is handed over as it is.
void Pipeline::turn(const StageAction& act) {
  if (tensors_.exist()) return turn_in_torch(act);
  if (act.step.pass == schedule::Pass::forward) {
    const std::uint32_t stub = pattern_of(stub_pattern_, "detach output", [](Emitter& e) {
      e.alloc(frame_slot(output_stub), 2, Category::other, "deallocated output");
    });
    push(stub, act.step, frame_of(act.step));
    const std::uint32_t take = pattern_of(take_output_, "take output", [](Emitter& e) {
      e.move(fixed_slot(output), layer_slot(input));
    });
    push(take, act.next, acquire(act.next));
    passes_.back().acquires = true;
    return;
  }
  const std::uint32_t take = pattern_of(take_gradient_, "take gradient", [](Emitter& e) {
    e.move(fixed_slot(sent_gradient), frame_slot(incoming_gradient));
  });
  push(take, act.next, frame_of(act.next));
}

// The tensor that one chunk produced replaces the other chunk's receive buffer for as long as the
// buffer would live. Kept outputs and kept gradients are moved as well.
void Pipeline::turn_in_torch(const StageAction& act) {
  const bool forward = act.step.pass == schedule::Pass::forward;
  if (forward && !rank_.keeps_output(act.step.chunk)) {
    const std::uint32_t stub = pattern_of(stub_pattern_, "detach output", [&](Emitter& e) {
      hold_place(e, frame_slot(output_stub));
    });
    push(stub, act.step, frame_of(act.step));
  }
  const StageTensors::Kind kind =
      forward ? StageTensors::input_buffer : StageTensors::gradient_buffer;
  const std::uint32_t take = pattern_of(
      kind, act.next, forward ? "take output" : "take gradient", [&](Emitter& e, Slot buffer) {
        e.free(buffer);
        e.move(fixed_slot(forward ? output : sent_gradient), buffer);
        hold_place(e, forward ? layer_slot(input) : frame_slot(incoming_gradient));
      });
  push(take, act.next, forward ? acquire(act.next) : frame_of(act.next));
  passes_.back().acquires = forward;
}

// Filling is the time before the first backward pass; draining is the time after the last forward
// pass. A microbatch is complete for the neighbours once its gradient is being sent.
void Pipeline::mark_steady() {
  const auto is = [&](const Pass& p, PassKind kind) {
    return rank_.program.templates[p.pattern].kind == kind;
  };
  const auto first_backward = std::find_if(
      passes_.begin(), passes_.end(), [&](const Pass& p) { return is(p, PassKind::backward); });
  const auto last_forward = std::find_if(passes_.rbegin(), passes_.rend(),
                                         [&](const Pass& p) { return is(p, PassKind::forward); });
  for (std::uint32_t& position : completed_)
    while (position < passes_.size() && is(passes_[position], PassKind::exchange)) ++position;
  for (auto it = passes_.begin(); it != passes_.end(); ++it)
    it->steady = it >= first_backward && it < last_forward.base();
}

std::vector<Pass> Pipeline::passes(const Patterns& patterns, const BehindPass& behind,
                                   int microbatches, const schedule::Order& order) {
  microbatches_ = microbatches;
  passes_.clear();
  completed_.clear();
  frames_.assign(
      static_cast<std::size_t>(microbatches * rank_.plan.pipeline.virtual_stages * slices_), -1);
  free_frames_.clear();
  next_frame_ = 0;
  done_ = 0;
  for (const StageAction& act :
       expand_order(rank_.pipeline_schedule(), pipeline_shape(rank_.plan, microbatches), order,
                    rank_.program.stage)) {
    switch (act.kind) {
      case StageAction::Kind::pass:
      case StageAction::Kind::share:
      case StageAction::Kind::reduce:
      case StageAction::Kind::look_up:
      case StageAction::Kind::share_rows:
      case StageAction::Kind::look_up_back:
        run(act, patterns);
        if (const auto other = behind(act))
          push(other->pattern, other->task, frame_of(other->task));
        break;
      case StageAction::Kind::exchange:
        exchange(act);
        break;
      case StageAction::Kind::release:
        release(act);
        break;
      case StageAction::Kind::turn:
        turn(act);
        break;
    }
  }
  rank_.program.frames = std::max(rank_.program.frames, next_frame_);
  mark_steady();
  return passes_;
}

}  // namespace sim::program
