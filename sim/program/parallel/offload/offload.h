// offload.h — offloads the saved tensors of layers to the CPU until their backward pass.
//
//     forward   layer i | copy i down beside layer i + 1 | wait, free i | copy i + 1 down ...
//     backward  copy i up beside layer i + 1 | wait | layer i ...
//
// The streams wait for each other at the end of each layer [TransformerEngine
// cpu_offload.py:AsyncDoubleBufferGroupOffloadHandler]. For layers that are recomputed as a group,
// only the group's input is saved [pytorch/torchtune training/_activation_offloading.py beside
// activation checkpointing].
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/program/ir/rank.h"

namespace sim::program {

class Offload {
 public:
  explicit Offload(Rank& rank) : rank_(rank) {}

  // The layer whose copy down starts when `layer` is done; none for the chunk's last group of
  // layers.
  std::optional<int> behind(int chunk, int layer) const;
  // The layer whose copy down ends when `layer` is done: normally the layer before. With choices of
  // layers: the nearest swapped layer below, if `layer` is swapped or the last.
  std::optional<int> before(int chunk, int layer) const;
  std::uint32_t down(int layer);       // starts the copy down,
  std::uint32_t wait_down(int layer);  // ... waits for it and frees the layer's tensors
  std::uint32_t up(int layer);         // allocates the tensors and starts the copy up,
  std::uint32_t there(int layer);      // ... waits for it

 private:
  std::optional<int> swapped_below(int chunk, int layer) const;
  enum Move : std::uint8_t { down_, wait_down_, up_, there_ };
  template <class Write>
  std::uint32_t block(Move move, int layer, const char* name, Write write);

  Rank& rank_;
  std::map<std::pair<Move, bool>, std::uint32_t> blocks_;  // by [move][runs again]
};

}  // namespace sim::program
