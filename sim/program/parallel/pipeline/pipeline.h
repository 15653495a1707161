// pipeline.h — lays out the passes of a rank and the exchanges between them (expand_order.h) in its
// program.
//
// Without interleaving every exchange is batched and followed by a device synchronisation; sends
// and receives that are posted one by one overlap with compute and are waited for before the pass
// that needs them. Each kind of message has a stream of its own in each direction, so that none
// waits for another.
//
// Parameters in shards run in torch.distributed.pipelining's stages: batches as above, for which
// the stream waits and not the CPU [PyTorch 2.6 schedules.py:Schedule1F1B, _wait_batch_p2p], and
// what stage_tensors.h says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/rank.h"
#include "sim/program/layers/stage_tensors.h"
#include "sim/program/parallel/pipeline/expand_order.h"
#include "sim/program/plan/schedule_rules.h"

namespace sim::program {

// The template of a pass, or of what stands beside the output passes. Asked for in the order in
// which they run, once for each.
using Patterns = std::function<std::uint32_t(const StageAction& act)>;
// What stands behind a pass in the frame of another task: its template.
struct Behind {
  std::uint32_t pattern;
  schedule::Step task;
};
using BehindPass = std::function<std::optional<Behind>(const StageAction& act)>;

// What a pass waits for before its first block: its input, and where the wire says so the message
// that its forerunner sent.
void wait_for_messages(Emitter& e, const Rank& rank, int chunk, bool forward);

// Writes the exchange templates of a rank and lays out its passes.
class Pipeline {
 public:
  explicit Pipeline(Rank& rank);

  // The passes of one step of so many microbatches between its begin and its end, in the order that
  // the schedule gives this stage. Frames are counted into the program.
  std::vector<Pass> passes(const Patterns& patterns, const BehindPass& behind, int microbatches,
                           const schedule::Order& order);

  // What stages do around the passes of a step, behind its begin and before its end.
  void begin_step(Emitter& e, bool first) const { tensors_.begin_step(e, first); }
  void end_step(Emitter& e) const { tensors_.end_step(e); }

  // Positions in the result of the last passes() behind which microbatch k was complete.
  const std::vector<std::uint32_t>& completed() const { return completed_; }

 private:
  void run(const StageAction& act, const Patterns& patterns);
  void exchange(const StageAction& act);
  void release(const StageAction& act);
  void turn(const StageAction& act);
  void turn_in_torch(const StageAction& act);
  void keep(StageTensors::Kind kind, const schedule::Step& task);
  void mark_steady();

  std::size_t number(const schedule::Step& task) const {
    const int slices = slice_count(rank_.plan);
    return static_cast<std::size_t>((task.chunk * microbatches_ + task.microbatch) * slices +
                                    task.slice);
  }
  bool has_frame(const schedule::Step& task) const { return frames_[number(task)] >= 0; }
  std::uint32_t acquire(const schedule::Step& task);
  std::uint32_t frame_of(const schedule::Step& task);
  void push(std::uint32_t pattern, const schedule::Step& task, std::uint32_t frame);
  std::uint32_t exchange_pattern(std::uint32_t messages);
  // One block as a template of its own, written once.
  std::uint32_t pattern_of(std::int64_t& written, std::string_view name,
                           const std::function<void(Emitter&)>& write);
  // ... that names a tensor of the task.
  std::uint32_t pattern_of(StageTensors::Kind kind, const schedule::Step& task,
                           std::string_view name, const std::function<void(Emitter&, Slot)>& write);
  void hold_place(Emitter& e, Slot slot) const;
  Bytes message() const;
  bool by_torch() const { return rank_.plan.shards_parameters(); }

  Rank& rank_;
  StageTensors tensors_;
  std::vector<Pass> passes_;
  std::vector<std::uint32_t> completed_;
  // By slice and messages, -1: not written yet.
  std::vector<std::int64_t> exchange_patterns_;
  std::int64_t release_pattern_ = -1, stub_pattern_ = -1, take_output_ = -1, take_gradient_ = -1;
  std::map<std::pair<StageTensors::Kind, std::uint32_t>, std::int64_t> tensor_patterns_;  // by slot
  schedule::Step went_back_{};        // the pass that made the gradient to be sent
  std::vector<std::int32_t> frames_;  // by task number, -1: none
  std::vector<std::uint32_t> free_frames_;
  std::uint32_t next_frame_ = 0;
  int microbatches_ = 0;
  int done_ = 0;
};

}  // namespace sim::program
