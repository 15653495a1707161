// memory_code.h — the memory instructions of a block, for replays of memory alone.
//
// A transient is a tensor that is freed before the next allocation of a tensor that is not a
// transient. So its address affects no other tensor. A group is a run of transients. The executor
// leaves a group out if each of its tensors would find room without the driver and without a new
// peak (RankMemory::room_for).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/rank/rank_memory.h"
#include "sim/program/ir/program.h"

namespace sim::engine {

struct MemoryInstruction {
  program::Instruction instruction;
  std::uint32_t place = 0;  // in the block
};

struct MemoryCode {
  struct Group {
    std::vector<RoomNeeded> rooms;  // by stream
    std::int64_t tensors = 0;
  };
  struct Mark {
    std::int16_t group = -1;  // index into `groups`: the group begins here
    bool transient = false;   // allocation or free of one
  };
  std::vector<MemoryInstruction> code;
  std::vector<Group> groups;
  std::vector<Mark> marks;  // by place in the block
};

MemoryCode memory_code(const program::Block& block);
inline const MemoryCode no_memory;  // for replays without memory

// The memory code of the blocks of a job. Blocks with the same effect on memory share it, also
// across rank classes.
class MemoryCodes {
 public:
  const MemoryCode* of(const program::Block& block);

 private:
  struct Known {
    const program::Block* block;
    MemoryCode code;
  };
  std::unordered_multimap<std::uint64_t, std::unique_ptr<const Known>> known_;  // by digest
};

// The number of a slot, given where the frame and the layer begin.
constexpr std::uint32_t slot_number(const program::Program& program, program::Space space,
                                    std::uint32_t index, std::uint32_t frame_base,
                                    std::uint32_t layer_base) {
  switch (space) {
    case program::Space::fixed:
      return index;
    case program::Space::local:
      return program.fixed_slots + index;
    case program::Space::microbatch:
      return frame_base + index;
    case program::Space::layer:
      break;
  }
  return layer_base + index;
}

// Visits the memory instructions of the passes [begin, end) in order: visit(pass, call, step, slot,
// to). `to` is the destination of a move.
template <class Visit>
void walk_memory(const program::Program& program, const std::vector<program::Pass>& passes,
                 std::uint32_t begin, std::uint32_t end, std::span<const MemoryCode* const> blocks,
                 const Visit& visit) {
  const std::uint32_t frames = program.fixed_slots + program.local_slots;
  for (std::uint32_t p = begin; p < end; ++p) {
    const std::uint32_t frame = frames + passes[p].frame * program.frame_slots;
    const std::vector<program::Call>& calls = program.templates[passes[p].pattern].calls;
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      const std::uint32_t layer = frame + calls[c].layer_base;
      for (const MemoryInstruction& step : blocks[calls[c].block]->code) {
        const program::Instruction& i = step.instruction;
        const program::Slot from{i.space, i.index};
        const program::Slot to = i.op == program::Op::move ? program::destination(i) : from;
        visit(p, c, step, slot_number(program, from.space, from.index, frame, layer),
              slot_number(program, to.space, to.index, frame, layer));
      }
    }
  }
}

}  // namespace sim::engine
