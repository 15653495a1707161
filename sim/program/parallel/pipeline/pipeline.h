// pipeline.h — writes the passes of a rank and the exchanges between them (expand_order.h) into its
// program.
//
// Without interleaving, exchanges are batched, and a device synchronisation follows each. Sends and
// receives that are posted one by one overlap with compute; the pass that needs a message waits for
// it. Each kind of message has its own stream in each direction, so that none waits for another.
//
// Sharded parameters run in torch.distributed.pipelining's stages. Exchanges are batched as above,
// but the stream waits and not the CPU [PyTorch 2.6 schedules.py:Schedule1F1B, _wait_batch_p2p].
// stage_tensors.h describes the tensors that these stages keep.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/rank.h"
#include "sim/program/parallel/pipeline/expand_order.h"
#include "sim/program/parallel/pipeline/stage_tensors.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

// Gives the template of a pass, or of an action beside the output passes. It is called in execution
// order, once for each action.
using Patterns = std::function<std::uint32_t(const StageAction& act)>;
// An extra template after a pass, in the frame of another task.
struct Behind {
  std::uint32_t pattern;
  schedule::ScheduledPass task;
};
using BehindPass = std::function<std::optional<Behind>(const StageAction& act)>;

// The waits of a pass before its first block: for its input and, on some wires, for the message
// that the previous pass sent.
void wait_for_messages(Emitter& e, const Rank& rank, int chunk, bool forward);

// Writes the exchange templates of a rank and lays out its passes.
class Pipeline {
 public:
  explicit Pipeline(Rank& rank);

  // The passes of one step with `microbatches` microbatches, without its begin and end, in the
  // schedule's order for this stage. Sets the number of frames of the program.
  std::vector<Pass> passes(const Patterns& patterns, const BehindPass& behind, int microbatches,
                           const schedule::Order& order);

  // The actions of stages around the passes of a step: after its begin and before its end.
  void begin_step(Emitter& e, bool first) const { tensors_.begin_step(e, first); }
  void end_step(Emitter& e) const { tensors_.end_step(e); }

  // By microbatch k: the position in the last passes() after which k was complete.
  const std::vector<std::uint32_t>& completed() const { return completed_; }

 private:
  void run(const StageAction& act, const Patterns& patterns);
  void exchange(const StageAction& act);
  void release(const StageAction& act);
  void turn(const StageAction& act);
  void turn_in_torch(const StageAction& act);
  void keep(StageTensors::Kind kind, const schedule::ScheduledPass& task);
  void mark_steady();

  std::size_t number(const schedule::ScheduledPass& task) const {
    return static_cast<std::size_t>((task.chunk * microbatches_ + task.microbatch) * slices_ +
                                    task.slice);
  }
  bool has_frame(const schedule::ScheduledPass& task) const { return frames_[number(task)] >= 0; }
  std::uint32_t acquire(const schedule::ScheduledPass& task);
  std::uint32_t frame_of(const schedule::ScheduledPass& task);
  void push(std::uint32_t pattern, const schedule::ScheduledPass& task, std::uint32_t frame);
  std::uint32_t exchange_pattern(std::uint32_t messages);
  // A single block as a template, written once.
  std::uint32_t pattern_of(std::int64_t& written, std::string_view name,
                           const std::function<void(Emitter&)>& write);
  // The same for a block that names a tensor of the task.
  std::uint32_t pattern_of(StageTensors::Kind kind, const schedule::ScheduledPass& task,
                           std::string_view name, const std::function<void(Emitter&, Slot)>& write);
  void hold_place(Emitter& e, Slot slot) const;
  Bytes message() const;
  bool by_torch() const { return rank_.plan.shards_parameters(); }

  Rank& rank_;
  int slices_;  // of a sequence
  StageTensors tensors_;
  std::vector<Pass> passes_;
  std::vector<std::uint32_t> completed_;
  // By slice and messages; -1: not written yet.
  std::vector<std::int64_t> exchange_patterns_;
  std::int64_t release_pattern_ = -1, stub_pattern_ = -1, take_output_ = -1, take_gradient_ = -1;
  std::map<std::pair<StageTensors::Kind, std::uint32_t>, std::int64_t> tensor_patterns_;  // by slot
  schedule::ScheduledPass went_back_{};  // the pass that produced the gradient to be sent
  std::vector<std::int32_t> frames_;     // by task number, -1: none
  std::deque<std::uint32_t> free_frames_;
  std::uint32_t next_frame_ = 0;
  int microbatches_ = 0;
  int done_ = 0;
};

}  // namespace sim::program
