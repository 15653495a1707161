// memory_code.h — what a block does to memory, without the rest: for replays of memory alone.
//
// A transient is a tensor between whose allocation and free no other tensor is placed, transients
// apart. Where it goes has no consequence: its room comes back before anybody looks. A run of
// transients (a group) can be left out as a whole when each would find room without the driver and
// without a new peak (RankMemory::room_for).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/replay/rank_memory.h"
#include "sim/workload/program.h"

namespace sim::replay {

struct MemoryInstruction {
  workload::Instruction instruction;
  std::uint32_t place = 0;  // in the block
  std::int16_t group = -1;  // index into MemoryCode::groups: the group begins here
  bool transient = false;   // allocation or free of one
};

struct MemoryCode {
  struct Group {
    std::vector<RoomNeeded> rooms;  // by stream
    std::int64_t tensors = 0;
  };
  // What `code` says of transients, by place in the block.
  struct Mark {
    std::int16_t group = -1;
    bool transient = false;
  };
  std::vector<MemoryInstruction> code;
  std::vector<Group> groups;
  std::vector<Mark> marks;
};

MemoryCode memory_code(const workload::Block& block);

}  // namespace sim::replay
