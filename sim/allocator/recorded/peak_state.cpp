#include "sim/allocator/recorded/peak_state.h"

#include <algorithm>

namespace sim::allocator {

void PeakState::look(const Allocator& allocator) {
  const PoolStatistics& all = allocator.statistics().all;
  if (all.reserved_bytes.current <= reserved) return;
  *this = {};
  reserved = all.reserved_bytes.current;
  allocated = all.allocated_bytes.current;
  const auto see = [&](const BlockView& block) {
    if (block.state != BlockState::inactive) return;
    largest_free = std::max(largest_free, block.size);
    ++free_blocks;
  };
  allocator.visit_segments([](const SegmentView&) {}, see);
}

}  // namespace sim::allocator
