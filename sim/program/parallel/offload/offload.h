// offload.h — what the first layers of a model chunk save waits for its backward pass on the CPU.
//
//     forward   layer i | copy i down beside layer i + 1 | wait, free i | copy i + 1 down ...
//     backward  copy i up beside layer i + 1 | wait | layer i ...
//
// [TransformerEngine cpu_offload.py:AsyncDoubleBufferGroupOffloadHandler, whose streams wait for
// each other at each layer's end]. Of layers that run again
// as a group the group's input is what was saved
// [pytorch/torchtune training/_activation_offloading.py beside activation checkpointing].
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/program/ir/rank.h"

namespace sim::program {

class Offload {
 public:
  explicit Offload(Rank& rank) : rank_(rank) {}

  // The layer whose copy begins where `layer` is done; none for the chunk's last group of layers.
  std::optional<int> behind(int chunk, int layer) const;
  // The layer whose copy ends there: the one before. Where layers swap by choice, the nearest below
  // that does, if `layer` does or is the last.
  std::optional<int> before(int chunk, int layer) const;
  std::uint32_t down(int layer);   // its copy begins,
  std::uint32_t away(int layer);   // ... is done, and its tensors go
  std::uint32_t up(int layer);     // its tensors are there again, to be filled,
  std::uint32_t there(int layer);  // ... and are

 private:
  std::optional<int> swapped_below(int chunk, int layer) const;
  enum Move : std::uint8_t { down_, away_, up_, there_ };
  template <class Write>
  std::uint32_t block(Move move, int layer, const char* name, Write write);

  Rank& rank_;
  std::map<std::pair<Move, bool>, std::uint32_t> blocks_;  // by [move][runs again]
};

}  // namespace sim::program
