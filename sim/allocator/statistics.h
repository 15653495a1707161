// statistics.h — the counters of the allocator, with the names of torch.cuda.memory_stats.
//
// The allocator updates them with every call. The engine reads bytes and peaks; `rehearse memory`
// prints all of them.
//
// Invariants
//  (1) current = allocated() - freed(). peak is the largest current since the last reset.
//  (2) all = small_pool + large_pool in current, allocated and freed. Peaks need not add up.
#pragma once

#include <cstdint>

namespace sim::allocator {

// One counter: a number of objects or of bytes.
struct Statistic {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::uint64_t increased = 0;  // sum of all increases; unsigned because it may wrap

  std::int64_t allocated() const { return static_cast<std::int64_t>(increased); }
  std::int64_t freed() const {
    return static_cast<std::int64_t>(increased - static_cast<std::uint64_t>(current));
  }

  // REQUIRES: n >= 0.
  void up(std::int64_t n) {
    current += n;
    increased += static_cast<std::uint64_t>(n);
    peak = current > peak ? current : peak;
  }
  void down(std::int64_t n) { current -= n; }
  void change(std::int64_t n) { n > 0 ? up(n) : down(-n); }

  friend bool operator==(const Statistic&, const Statistic&) = default;
};

struct PoolStatistics {
  Statistic allocation;
  Statistic segment;
  Statistic active;
  Statistic inactive_split;
  Statistic allocated_bytes;
  Statistic reserved_bytes;
  Statistic active_bytes;
  Statistic inactive_split_bytes;
  Statistic requested_bytes;

  friend bool operator==(const PoolStatistics&, const PoolStatistics&) = default;
};

struct Statistics {
  PoolStatistics all;
  PoolStatistics small_pool;
  PoolStatistics large_pool;
  Statistic oversize_allocations;
  Statistic oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;

  void reset_peaks();

  friend bool operator==(const Statistics&, const Statistics&) = default;
};

}  // namespace sim::allocator
