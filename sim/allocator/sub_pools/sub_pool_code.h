// sub_pool_code.h — the allocations and frees of one cycle of a repeating program in one sub-pool.
//
// The engine writes a SubPoolCode once the times of a step repeat from cycle to cycle
// (engine/steady/sub_pool_replay.h). SubPoolMachine then plays it cycle by cycle. README.md of this
// folder tells the whole story.
//
// A sub-pool holds the memory of one pool on one stream (allocator.h). Between two calls of the
// driver, sub-pools do not affect each other. The free blocks of a sub-pool are a function of its
// occupied intervals. A code never changes after prepare().
#pragma once

#include <cstdint>
#include <vector>

namespace sim::allocator {

// One tensor that every cycle allocates. A tensor that outlives its cycle exists several times at
// once; the instance of each cycle has a register of its own.
struct SubPoolTensor {
  std::int64_t bytes = 0;  // rounded as the allocator rounds
  int cycles = 0;          // released in the n-th cycle after its own; 0: in the same cycle
  // The register of the instance allocated in cycle c is base + (c & mask).
  std::uint32_t base = 0, mask = 0;
};

// One event of the cycle.
struct SubPoolStep {
  enum class Kind : std::uint8_t {
    place,    // allocation
    release,  // freed, and no stream uses it: the block becomes free
    leave,    // freed, but other streams still use it: the block stays
    finish,   // after leave: the streams are done and the block becomes free
    note,     // records the slack at this point
  };
  Kind kind = Kind::place;
  std::int32_t tensor = -1;
  std::int32_t cycles = 0;  // number of cycles since the tensor was allocated
  std::int32_t group = -1;  // of place: index of the group that begins here; -1: none
};

// One size of a group, for the test of room: a tensor of `bytes` is allocated while at most `live`
// other tensors of the group exist. None of them is larger than SubPoolGroup::largest.
struct SubPoolNeed {
  std::int64_t bytes = 0;
  std::int32_t live = 0;
};

// A run of steps that can be skipped as a whole if all its tensors find room. Every tensor that the
// run allocates is also released in it, before `end`. After the run, the free blocks are those of
// before, except for the tensors of others that the run releases (`others`).
//
// Each of two tests proves that every tensor of the group finds room:
//   - one free block holds `bytes`, the sum of all tensors of the group
//   - for each need, the live tensors cannot fragment all free blocks. A free block of
//     n * (bytes + largest) + bytes leaves room even with n tensors in it: its free part lies in
//     n + 1 gaps, and if every gap were smaller than `bytes`, the block would be smaller.
//     (`bytes` here is SubPoolNeed::bytes.)
struct SubPoolGroup {
  std::int64_t bytes = 0, largest = 0;      // sum of all tensors, and the largest of them
  std::int32_t end = 0;                     // first step after the group
  std::int32_t needs = 0, needs_end = 0;    // range in SubPoolCode::needs, largest size first
  std::int32_t others = 0, others_end = 0;  // range in SubPoolCode::others
};

// The code of one sub-pool. The caller fills small, tensors, steps and notes; prepare() the rest.
struct SubPoolCode {
  bool small = false;  // the small pool: its blocks are always split and have no slack
  std::vector<SubPoolTensor> tensors;
  std::vector<SubPoolStep> steps;
  std::vector<SubPoolGroup> groups;
  std::vector<SubPoolNeed> needs;
  std::vector<std::int32_t> others;  // steps inside groups that release tensors of others
  std::uint32_t registers = 0;       // number of registers of all tensors
  int notes = 0;                     // number of steps of kind note
};

// Makes a code with tensors and steps ready to be played.
//   registers     every tensor gets its own
//   groups        all short groups (at most 48 steps), and long groups that begin far enough apart:
//                 the longer the group, the greater the distance. No group spans a note.
void prepare(SubPoolCode& code);

}  // namespace sim::allocator
