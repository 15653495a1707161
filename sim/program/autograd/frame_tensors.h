// frame_tensors.h — what one microbatch holds: the tensors in its frame, call by call.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/program/ir/program.h"

namespace sim::program {

// Walks calls of one program as one frame runs them, its forward passes first. Tensors outside the
// frame are followed too, for some are moved into it.
class FrameTensors {
 public:
  explicit FrameTensors(const Program& program) : program_(program) {}

  void run(const Call& call);
  void run(const Template& pattern);  // all its calls
  // Of the frame's tensors, as asked for, without the allocator's rounding.
  std::int64_t bytes() const { return bytes_; }

 private:
  using Key = std::pair<Space, std::uint32_t>;

  // What was there.
  std::int64_t put(const Call& call, Slot slot, std::int64_t bytes);

  const Program& program_;
  std::map<Key, std::int64_t> held_;  // of a layer's slots by their place in the frame
  std::int64_t bytes_ = 0;
};

}  // namespace sim::program
