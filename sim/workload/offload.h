// offload.h — what the first layers save waits for its backward pass on the CPU.
//
// Copies to the CPU and back run beside the layers; memory goes when the next layer is done and is
// there again before that layer's backward pass
// [TransformerEngine cpu_offload.py:AsyncDoubleBufferGroupOffloadHandler].
#pragma once

#include <cstdint>
#include <map>

#include "sim/workload/rank.h"

namespace sim::workload {

class Offload {
 public:
  explicit Offload(Rank& rank) : rank_(rank) {}

  bool takes(int layer) const { return layer >= 0 && layer < rank_.plan.offload_layers; }
  // From a layer's forward pass: what it leaves in the layer's slots, and the residual that it was
  // given.
  void find_saved(std::uint32_t forward_block);
  std::uint32_t away();
  std::uint32_t back();

 private:
  Rank& rank_;
  std::map<std::uint32_t, Instruction> saved_;  // by slot
  std::int64_t away_ = -1, back_ = -1;          // blocks, -1: not written yet
};

}  // namespace sim::workload
