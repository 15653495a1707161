// sub_pool_code.h — what one cycle of a repeating program does to one sub-pool of an allocator: a
// flat list of placements and releases, with the groups of transients that leave it as it was.
//
// A sub-pool is one pool's memory of one stream (allocator.h). Between two calls of the driver
// sub-pools do not touch each other, and the free blocks of a sub-pool are a function of its
// occupied intervals.
#pragma once

#include <cstdint>
#include <vector>

namespace sim::allocator {

// A tensor of the cycle. One of an earlier cycle that is still held is another tensor in the same
// place of the program: it has the register of its own cycle.
struct SubPoolTensor {
  std::int64_t bytes = 0;  // rounded as the allocator does
  int cycles = 0;          // it is gone so many cycles after that in which it was placed
  // Registers: base + (cycle & mask).
  std::uint32_t base = 0, mask = 0;
};

struct SubPoolStep {
  enum class Kind : std::uint8_t {
    place,
    release,  // nobody uses it any more
    leave,    // freed, but streams still use it
    finish,   // ... no more
    note,     // the slack is noted here
  };
  Kind kind = Kind::place;
  std::int32_t tensor = -1;
  std::int32_t cycles = 0;  // how many cycles ago it was placed
  std::int32_t group = -1;  // of place: a group begins here
  bool lazy = false;        // of place and release: see prepare()
};

// What a placement needs to find room among others of its group: no more than `live` of them lie
// somewhere, none larger than SubPoolGroup::largest.
struct SubPoolNeed {
  std::int64_t bytes = 0;
  std::int32_t live = 0;
};

// Placements whose tensors are all released before `end`, and between whose placement and release
// nothing else is placed: where each finds room, what is free behind them is what was free before,
// save for what is released of others.
//
// Each finds room where `bytes`, of all of them, are free in one block. And where those that live
// cannot spoil every free block for it: a block of n * (bytes + largest) + bytes takes more than n
// of them. (What is free of such a block is between them; if all gaps were too small, the block
// were smaller.)
struct SubPoolGroup {
  std::int64_t bytes = 0, largest = 0;
  std::int32_t end = 0;                     // the step behind the last of them
  std::int32_t needs = 0, needs_end = 0;    // in SubPoolCode::needs, from the largest on
  std::int32_t others = 0, others_end = 0;  // in SubPoolCode::others
};

struct SubPoolCode {
  bool small = false;  // blocks of the small pool are always cut: they have no slack
  std::vector<SubPoolTensor> tensors;
  std::vector<SubPoolStep> steps;
  std::vector<SubPoolGroup> groups;
  std::vector<SubPoolNeed> needs;
  std::vector<std::int32_t> others;  // steps
  std::uint32_t registers = 0;
  int notes = 0;  // steps that are one
};

// Most lazy tensors at a time.
constexpr std::size_t most_lazy = 4;

// Makes a code of tensors and steps ready to be played.
//   registers: every tensor has its own.
//   groups: all short ones, and long ones that begin some steps apart, the longer the farther. No
//     group goes over a note.
//   lazy tensors: released a few steps behind their placement, with few others of their kind about
//     at a time.
void prepare(SubPoolCode& code);

}  // namespace sim::allocator
