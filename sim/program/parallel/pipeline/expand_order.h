// expand_order.h — expands the order of a stage's passes into all actions of the stage. It adds the
// receives and sends and their places, and marks the first and last pass that add to gradients. It
// works on the order of any schedule and never tests which schedule it is.
//
// Wires
//     batched   one exchange after each pass. It includes the receive of the next pass if that pass
//               has the other direction; otherwise the receive comes before the next pass
//               [core 0.8 p2p_communication.py: batch_p2p_comm, batch_p2p_sync]
//     posted    sends after the pass; receives right before the pass that needs them, or (ahead)
//               after the previous pass of the same direction; the first gradient's after the last
//               warm-up pass [schedules.py:forward_backward_pipelining_with_interleaving];
//               two paired passes both send after the second one [deepseek-ai/
//               DualPipe dualpipe.py:_forward_backward_chunk]
//
// A vocabulary that is split over all stages [sail-sg/VocabularyParallelism core/pipeline_parallel/
// vocab_parallel_schedule.py, interlaced_schedule.py]
//     The last part's output is sent as soon as it exists and the previous output pass is issued.
//     Other stages receive it before the backward pass that precedes their output pass. All stages
//     look up a microbatch's rows after the last output pass before the first stage's forward pass,
//     or at the very beginning. Gradients come back with the second output pass after the first
//     stage's backward pass.
//
// If a microbatch continues in another chunk of the same stage (the turn of a V), nothing is sent:
// the tensor is handed over.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::program {

// The place of a pass among the passes of its chunk that add to the same gradients, in execution
// order; for a forward pass, among forward passes. Gradients of layers' products are written by
// backward and weight passes, all others by backward and input passes.
struct Position {
  bool first = false, last = false;
  bool first_of_ends = false;  // among passes that write the other gradients
};

// The messages of an exchange. `upward`: the chunk's activations travel from the last stage to the
// first.
enum Messages : std::uint32_t {
  send_forward = 1,
  receive_forward = 2,
  send_backward = 4,
  receive_backward = 8,
  upward = 16,
};

struct StageAction {
  enum class Kind : std::uint8_t {
    pass,
    exchange,  // `step` is the task that receives, or that has sent
    release,   // the output that was sent is freed
    turn,      // the output, or the input's gradient, is handed to `next` on the same stage
    // The vocabulary is split over all stages. All stages run these actions in the same order.
    share,        // the last part's output goes to the output passes of all stages
    reduce,       // sums of an output pass over all stages
    look_up,      // looks up a microbatch's rows and sums them for the first stage
    share_rows,   // the rows' gradient comes back from the first stage
    look_up_back  // ... and is added to the table's
  };
  Kind kind;
  schedule::ScheduledPass step;
  std::uint32_t messages = 0;
  Position position = {};  // for passes
  bool completes = false;  // for a pass: the last one of its microbatch on its chunk
  schedule::ScheduledPass next = {};
};

// REQUIRES: schedule.problem(shape) is empty; `order` is that of `stage`.
std::vector<StageAction> expand_order(const schedule::Schedule& schedule,
                                      const schedule::PipelineShape& shape,
                                      const schedule::Order& order, int stage);

}  // namespace sim::program
