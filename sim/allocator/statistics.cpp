#include "sim/allocator/statistics.h"

namespace sim::allocator {
namespace {

void reset(Statistic& statistic) {
  statistic.peak = statistic.current;
}

void reset(PoolStatistics& pool) {
  reset(pool.allocation);
  reset(pool.segment);
  reset(pool.active);
  reset(pool.inactive_split);
  reset(pool.allocated_bytes);
  reset(pool.reserved_bytes);
  reset(pool.active_bytes);
  reset(pool.inactive_split_bytes);
  reset(pool.requested_bytes);
}

}  // namespace

void Statistics::reset_peaks() {
  reset(all);
  reset(small_pool);
  reset(large_pool);
  reset(oversize_allocations);
  reset(oversize_segments);
}

}  // namespace sim::allocator
