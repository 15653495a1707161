// frame_tensors.h — bytes of the tensors that one microbatch holds in its frame, call by call.
//
// A frame is the set of tensor slots of one microbatch (program.h). The planner and the estimate of
// pass times use this to learn the activation memory of a pass without a replay of the allocator.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/program/ir/program.h"

namespace sim::program {

// Follows the allocs, frees and moves of calls, in the order in which one frame runs them: forward
// passes first. Tensors outside the frame are tracked too, because a move may bring them into it.
class FrameTensors {
 public:
  explicit FrameTensors(const Program& program) : program_(program) {}

  void run(const Call& call);
  void run(const Template& pattern);  // all calls of the template
  // Requested bytes of the tensors now in the frame, without the allocator's rounding.
  std::int64_t bytes() const { return bytes_; }

 private:
  using Key = std::pair<Space, std::uint32_t>;

  // Sets the bytes in a slot and returns the bytes that were there before.
  std::int64_t put(const Call& call, Slot slot, std::int64_t bytes);

  const Program& program_;
  std::map<Key, std::int64_t> held_;  // bytes by slot; layer slots by their index in the frame
  std::int64_t bytes_ = 0;
};

}  // namespace sim::program
