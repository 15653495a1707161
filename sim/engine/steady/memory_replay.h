// memory_replay.h — replays the memory of one rank class through cycles whose times are known.
//
// Once the times of a class repeat, only its memory has to be followed. Two implementations replay
// the same bytes: AllocatorReplay calls the caching allocator itself; SubPoolReplay replays each
// sub-pool apart and is several times faster, but can neither call the driver nor find new peaks.
// memory_only.cpp chooses between them, cycle by cycle. Cycles are counted from the begin of the
// stretch (stretch.h).
#pragma once

#include <cstdint>

namespace sim::engine {

class MemoryReplay {
 public:
  enum class Stop { no, driver, peak };
  struct Reached {
    std::int64_t done = 0;
    Stop stop = Stop::no;
  };

  virtual ~MemoryReplay() = default;

  // Replays up to cycle `end`. Where a cycle needs the driver, or may reach a new peak that this
  // replay cannot find, it stops there and says which cycle; the state is then of no use until
  // put_back().
  virtual Reached advance(std::int64_t end) = 0;
  // Remembers the state for put_back().
  virtual void keep() = 0;
  virtual void put_back() = 0;
  // Cycles that are replayed.
  virtual std::int64_t done() const = 0;
};

}  // namespace sim::engine
