// recorded_blocks.h — the blocks of a replayed recording, by their recorded addresses.
//
// Both replays of a recording call it for each request: replay_recording with the recorded
// addresses, replay_requests under other allocator options.
//
// A recording does not tell which streams use a freed block, only when the block became available
// again. Each such block therefore gets a hidden stream of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "sim/allocator/allocator.h"
#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/recording_ranges.h"

namespace sim::allocator {

// Whether an event asks the driver for memory, or gives memory back to it.
bool takes(Action action);
bool gives_back(Action action);

class RecordedBlocks {
 public:
  explicit RecordedBlocks(Allocator& allocator) : allocator_(allocator) {}

  // A block that was in use when the recording began.
  void own(std::int64_t address, BlockId id) { live_[address] = id; }
  // Allocates in a private pool, or in none (0). no_block: out of memory.
  BlockId allocate(std::int64_t address, std::int64_t bytes, int stream, int pool);
  // Replays the request at event i to free a block. Returns the index of the next event.
  std::size_t free(const Recording& recording, std::size_t i);
  // Frees a block that another stream still uses, until complete().
  void free_later(std::int64_t address);
  // The hidden stream that is done when the free at this address completes; nothing: none is.
  std::optional<int> complete(std::int64_t address);

  bool waits() const { return !hidden_.empty(); }  // whether a block is still to complete
  std::size_t live() const { return live_.size(); }

 private:
  Allocator& allocator_;
  std::unordered_map<std::int64_t, BlockId> live_;  // by recorded address
  std::unordered_map<std::int64_t, int> hidden_;    // pending, by recorded address
  int next_hidden_ = first_hidden_stream;
};

}  // namespace sim::allocator
