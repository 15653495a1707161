// expand_order.h — from the order of a stage's passes to everything that the stage does for them:
// what it receives and sends, and when, which pass is the first and which the last to add to
// gradients. Pure: any schedule's order goes in, nothing asks which schedule it is.
//
// Wires
//     batched   an exchange behind each pass, with the receive that the next pass needs where that
//               goes the other way, else a receive before it [core 0.8 p2p_communication.py:
//               batch_p2p_comm, batch_p2p_sync]
//     posted    sends behind the pass; receives right before the pass that needs them, or (ahead)
//               behind the pass of the same direction before it, the first gradient's behind the
//               last warm-up pass [schedules.py:forward_backward_pipelining_with_interleaving];
//               of two passes beside each other both send behind the second one [deepseek-ai/
//               DualPipe dualpipe.py:_forward_backward_chunk]
//
// A vocabulary that is cut over all stages [sail-sg/VocabularyParallelism core/pipeline_parallel/
// vocab_parallel_schedule.py, interlaced_schedule.py]
//     The last part's output is sent as soon as it is there and the output pass before is issued;
//     other stages ask for it in front of the backward pass before their output pass. All stages
//     look up a microbatch's rows behind the last output pass before the first stage's forward
//     pass, or at the very beginning; gradients come back with the second output pass behind the
//     first stage's backward pass.
//
// Where a microbatch goes on in another chunk of the same stage, at the turn of a V, nothing
// travels: the tensor changes hands.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::program {

// Where a pass stands among those of its chunk that add to the same gradients (of a forward pass:
// among forward passes), in the order in which they run. A backward pass adds to those of layers'
// products, as weight passes do, and to all others, as input passes do.
struct Position {
  bool first = false, last = false;
  bool first_of_ends = false;  // of those that input passes add to
};

// Messages of an exchange. `upward`: they belong to a chunk whose activations travel from the last
// stage to the first.
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
    exchange,  // `step` is the task that receives, or the one that sent
    release,   // the output that was sent is given up
    turn,      // the output, or the gradient of the input, goes to `next` on the same stage
    // Where the vocabulary is cut over all stages. They happen in the same order everywhere.
    share,        // the last part's output goes to the output passes of all stages
    reduce,       // sums of an output pass, over all stages
    look_up,      // rows of a microbatch's input, and their sum for the first stage
    share_rows,   // their gradient comes back from the first stage
    look_up_back  // ... and is added to the table's
  };
  Kind kind;
  schedule::Step step;
  std::uint32_t messages = 0;
  Position position = {};  // of a pass
  bool completes = false;  // a pass: the last one of its microbatch on its chunk
  schedule::Step next = {};
};

// REQUIRES: schedule.problem(shape) is empty; `order` is that of `stage`.
std::vector<StageAction> walk(const schedule::Schedule& schedule, const schedule::Shape& shape,
                              const schedule::Order& order, int stage);

}  // namespace sim::program
