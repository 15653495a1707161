// peak_state.h — how fragmented an allocator is when it reserves most.
//
// The replays of traces and of recordings look at their allocator after each call.
#pragma once

#include <cstdint>

#include "sim/allocator/allocator.h"

namespace sim::allocator {

// Bytes when `reserved` first reached its peak.
struct PeakState {
  std::int64_t reserved = 0, allocated = 0;
  std::int64_t largest_free = 0;  // the largest free block of any pool and stream
  std::int64_t free_blocks = 0;

  // Keeps the state of the allocator if it reserves more than before.
  void look(const Allocator& allocator);
};

}  // namespace sim::allocator
