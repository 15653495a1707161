#include "sim/program/parallel/pipeline/stage_tensors.h"

#include <cassert>

#include "sim/program/layers/loss.h"

namespace sim::program {

StageTensors::StageTensors(Rank& rank)
    : rank_(rank), exist_(rank.in_torch_stages()), microbatches_(rank.plan.microbatches()) {
  if (!exist_) return;
  for (int chunk = 0; chunk < rank.plan.pipeline.virtual_stages; ++chunk)
    for (int kind = 0; kind < kinds; ++kind) {
      first_.push_back(rank.program.fixed_slots);
      if (!has(static_cast<Kind>(kind), chunk)) continue;
      for (int i = 0; i < microbatches_; ++i) rank.new_fixed();
    }
}

// The first part reads token ids, which have no gradient.
bool StageTensors::keeps_gradient(int chunk) const {
  return exist_ && rank_.plan.pipeline.kept_input_gradients && !rank_.is_first_part(chunk);
}

bool StageTensors::has(Kind kind, int chunk) const {
  switch (kind) {
    case input_buffer:
      return !rank_.is_first_part(chunk);
    case gradient_buffer:
      return !rank_.is_last_part(chunk);
    case kept_output:
      return rank_.keeps_output(chunk);
    case kept_gradient:
      return keeps_gradient(chunk);
    case kinds:
      break;
  }
  return false;
}

Slot StageTensors::slot(Kind kind, const schedule::ScheduledPass& task) const {
  assert(has(kind, task.chunk) && task.microbatch < microbatches_);
  return fixed_slot(first_[static_cast<std::size_t>(kinds * task.chunk + kind)] +
                    static_cast<std::uint32_t>(task.microbatch));
}

// Stages free the kept tensors of the step before, and make their buffers once.
void StageTensors::begin_step(Emitter& e, bool first) const {
  if (!exist_) return;
  const auto each = [&](int chunk, Kind kind, const auto& work) {
    if (!has(kind, chunk)) return;
    for (int i = 0; i < microbatches_; ++i) work(slot(kind, {schedule::Pass::forward, i, chunk}));
  };
  const std::int64_t bytes = rank_.dim.residual();
  for (int chunk = 0; chunk < rank_.plan.pipeline.virtual_stages; ++chunk) {
    // `maybe`: a tensor that was handed to a stage on the same rank is gone already.
    for (const Kind kind : {kept_output, kept_gradient})
      if (!first) each(chunk, kind, [&](Slot kept) { e.free(kept, maybe); });
    if (!first) continue;
    each(chunk, input_buffer,
         [&](Slot buffer) { e.alloc(buffer, bytes, Category::communication, "receive buffer"); });
    each(chunk, gradient_buffer, [&](Slot buffer) {
      e.alloc(buffer, bytes, Category::communication, "gradient receive buffer");
    });
  }
}

// The outputs of the last stage are concatenated into one tensor, which the caller discards.
void StageTensors::end_step(Emitter& e) const {
  if (!exist_ || !rank_.has_last_part()) return;
  if (rank_.plan.pipeline.kept_outputs == KeptOutputs::no_stage) return;
  const std::int64_t bytes = microbatches_ * logits_bytes(rank_.dim);
  e.alloc(local_slot(0), bytes, Category::logits, "merged outputs");
  e.memory_bound(model::OperationKind::copy, "merge outputs", 2 * bytes);
  e.free(local_slot(0));
}

}  // namespace sim::program
