// pipeline.h — the order of a rank's passes and what it exchanges with its neighbours between
// them, as Megatron-LM's schedules do.
//
// Without interleaving every exchange is batched and followed by a device synchronisation
// [core 0.8 p2p_communication.py: batch_p2p_comm, batch_p2p_sync]; a send and the receive that
// follows it share a batch where one is forward and the other backward. Interleaved schedules post
// unbatched sends and receives that overlap with compute and wait for them before the pass that
// needs them [schedules.py:forward_backward_pipelining_with_interleaving]. Schedules that split the
// backward pass post overlapping exchanges too.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/schedule/schedule.h"
#include "sim/workload/rank.h"

namespace sim::workload {

// Where a pass stands among those of its kind and chunk, in the order in which they run.
struct Position {
  bool first = false, last = false;
};

// The template of a pass. Asked for in the order in which the passes run, once for each.
using Patterns = std::function<std::uint32_t(schedule::Pass kind, int chunk, Position position)>;

// Writes the exchange templates of a rank and lays out its passes.
class Pipeline {
 public:
  Pipeline(Rank& rank, const schedule::Schedule& schedule);

  // The passes of one step of so many microbatches between its begin and its end. Frames are
  // counted into the program.
  std::vector<Pass> passes(const Patterns& patterns, int microbatches);

  // Positions in the result of the last passes() behind which microbatch k was complete.
  const std::vector<std::uint32_t>& completed() const { return completed_; }

 private:
  struct Task {
    int microbatch, chunk;
  };
  void synchronous(const schedule::Order& order, const Patterns& patterns);
  void overlapping(const schedule::Order& order, const Patterns& patterns);
  void interleaved(const schedule::Order& order, const Patterns& patterns);

  void run(schedule::Pass pass, Task task, const Patterns& patterns);
  Position next_position(schedule::Pass pass, int chunk);
  void exchange(bool send_forward, bool receive_forward, bool send_backward, bool receive_backward,
                Task receiver, bool batched);
  void release_output(Task task);

  std::uint32_t acquire(Task task);
  std::uint32_t frame_of(Task task);
  void push(std::uint32_t pattern, Task task, std::uint32_t frame);
  std::uint32_t pattern_of(std::uint32_t key);
  Bytes message() const;
  bool sends_forward(Task t) const { return !rank_.is_last_part(t.chunk); }
  bool sends_backward(Task t) const { return !rank_.is_first_part(t.chunk); }

  Rank& rank_;
  const schedule::Schedule& schedule_;
  std::vector<Pass> passes_;
  std::vector<std::uint32_t> completed_;
  std::vector<std::int64_t> exchange_patterns_;  // by bit mask, -1: not written yet
  std::int64_t release_pattern_ = -1;
  std::vector<std::int32_t> frames_;  // by task number, -1: none
  std::vector<std::uint32_t> free_frames_;
  std::uint32_t next_frame_ = 0;
  std::array<std::vector<int>, 4> run_;  // passes of a kind that ran, by chunk
  int microbatches_ = 0;
  int done_ = 0;
};

}  // namespace sim::workload
