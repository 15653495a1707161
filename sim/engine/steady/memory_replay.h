// memory_replay.h — replays the memory of one rank class through cycles whose times are known.
//
// Once the times of a class repeat, only its memory must be replayed. Two implementations replay
// the same bytes. AllocatorReplay calls the caching allocator itself. SubPoolReplay replays each
// sub-pool separately; it is several times faster, but can neither call the driver nor find new
// peaks. memory_only.cpp chooses between them, cycle by cycle. Cycles are counted from the begin of
// the stretch (stretch.h).
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

  // Replays up to cycle `end`. It stops at a cycle that needs the driver, or that may reach a new
  // peak which this replay cannot find. After such a stop the state is invalid until put_back().
  virtual Reached advance(std::int64_t end) = 0;
  // Saves the state for put_back().
  virtual void keep() = 0;
  virtual void put_back() = 0;
  // The number of cycles replayed.
  virtual std::int64_t done() const = 0;
};

}  // namespace sim::engine
