// stage_tensors.h — tensors that torch.distributed.pipelining keeps longer than a microbatch.
//
// Only ranks with PyTorch's pipeline stages have them. The builder asks for the slots and calls
// begin_step and end_step around each step.
//
// Receive buffers. A stage makes one per microbatch and direction before its first pass and keeps
// them for the whole run [PyTorch stage.py:PipelineStage._prepare_forward_infra,
// _prepare_backward_infra]. If the neighbour stage is on the same rank, its tensor takes the place
// of the buffer until the next step [set_local_fwd_input, set_local_bwd_input]. The frame of such a
// pass holds one element in place of the received tensor.
//
// Outputs. They stay until their backward pass has run [fwd_cache]. Older versions keep them until
// the next step, because the outputs of the last stage are merged and returned [output_chunks,
// schedules.py:_merge_outputs]. Those versions also keep the gradients of inputs, which are leaves
// [_backward.py:stage_backward, stage.py:clear_runtime_states]. PipelinePlan selects the version.
//
// Each tensor has a fixed slot, so a pass that names one has its own template per microbatch.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

class StageTensors {
 public:
  explicit StageTensors(Rank& rank);

  // False on ranks without PyTorch's stages; they must not call slot().
  bool exist() const { return exist_; }
  bool keeps_gradient(int chunk) const;  // the gradient of the chunk's input stays until next step

  // The slot of a tensor of one microbatch and chunk.
  enum Kind : std::uint8_t { input_buffer, gradient_buffer, kept_output, kept_gradient, kinds };
  Slot slot(Kind kind, const schedule::ScheduledPass& task) const;

  // First step: allocates the receive buffers. Later steps: frees the kept tensors of the step
  // before. end_step merges the outputs of the last stage.
  void begin_step(Emitter& e, bool first) const;
  void end_step(Emitter& e) const;

 private:
  bool has(Kind kind, int chunk) const;

  Rank& rank_;
  bool exist_;
  int microbatches_;
  std::vector<std::uint32_t> first_;  // slot of microbatch 0, by chunk and kind
};

}  // namespace sim::program
