// stage_tensors.h — what stages of torch.distributed.pipelining hold beyond a microbatch.
//
// A stage receives into buffers that it makes before its first pass, one a microbatch and
// direction, and keeps for the whole run [PyTorch stage.py:PipelineStage._prepare_forward_infra,
// _prepare_backward_infra]; where its neighbour is on the same rank, what that made takes the
// buffer's place, until the next step's does [set_local_fwd_input, set_local_bwd_input]. A pass
// holds an element in its frame where others have what they received.
//
// Outputs are held until their backward pass has run [fwd_cache]. Older versions keep them until
// the next step begins, for the last stage's are merged and returned [output_chunks,
// schedules.py:_merge_outputs], and with them the gradients of inputs, as those of leaves
// [_backward.py:stage_backward, stage.py:clear_runtime_states]; PipelinePlan says which.
//
// Each such tensor has a fixed slot, so passes that name one are templates of their microbatch.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

class StageTensors {
 public:
  explicit StageTensors(Rank& rank);

  // Nothing below is asked of a rank without PyTorch's stages.
  bool exist() const { return exist_; }
  bool keeps_gradient(int chunk) const;  // of its input

  // Of a microbatch and chunk.
  enum Kind : std::uint8_t { input_buffer, gradient_buffer, kept_output, kept_gradient, kinds };
  Slot slot(Kind kind, const schedule::Step& task) const;

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
