// offload.h — what the first layers of a model chunk save waits for its backward pass on the CPU.
//
// Copies to the CPU and back run beside the layers; memory goes when the next layer is done and is
// there again before that layer's backward pass
// [TransformerEngine cpu_offload.py:AsyncDoubleBufferGroupOffloadHandler]. Of layers that run again
// as a group the group's input is what was saved
// [pytorch/torchtune training/_activation_offloading.py beside activation checkpointing].
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/workload/rank.h"

namespace sim::workload {

class Offload {
 public:
  explicit Offload(Rank& rank) : rank_(rank) {}

  // What layer `layer` of a chunk leaves behind it; nothing for the chunk's last group of layers.
  // The layer whose tensors the blocks below move when `layer` is done, none: no layer's.
  std::optional<int> behind(int chunk, int layer) const;
  std::uint32_t away(int layer);
  std::uint32_t back(int layer);

 private:
  Rank& rank_;
  std::map<std::pair<bool, bool>, std::uint32_t> blocks_;  // by [away][runs again]
};

}  // namespace sim::workload
