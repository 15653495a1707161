#include "sim/allocator/recorded/recorded_blocks.h"

namespace sim::allocator {

bool takes(Action action) {
  return action == Action::segment_alloc || action == Action::segment_map;
}

bool gives_back(Action action) {
  return action == Action::segment_free || action == Action::segment_unmap;
}

BlockId RecordedBlocks::allocate(std::int64_t address, std::int64_t bytes, int stream, int pool) {
  if (pool != 0) {
    allocator_.poll();
    allocator_.begin_pool(pool);
  }
  const BlockId id = allocator_.allocate(bytes, stream);
  if (pool != 0) {
    allocator_.end_pool(pool);
    allocator_.release_pool(pool);
  }
  if (id != no_block) live_[address] = id;
  return id;
}

std::size_t RecordedBlocks::free(const Recording& recording, std::size_t i) {
  const std::int64_t address = recording.events[i].address;
  const bool at_once = i + 1 < recording.events.size() &&
                       recording.events[i + 1].action == Action::free_completed &&
                       recording.events[i + 1].address == address;
  if (!at_once) {
    free_later(address);
    return i + 1;
  }
  if (const auto it = live_.find(address); it != live_.end()) {
    allocator_.free(it->second);
    live_.erase(it);
  }
  return i + 2;
}

void RecordedBlocks::free_later(std::int64_t address) {
  const auto it = live_.find(address);
  if (it == live_.end()) return;
  hidden_[address] = next_hidden_;
  allocator_.record_stream(it->second, next_hidden_++);
  allocator_.free(it->second);
  live_.erase(it);
}

std::optional<int> RecordedBlocks::complete(std::int64_t address) {
  const auto it = hidden_.find(address);
  if (it == hidden_.end()) return std::nullopt;
  const int stream = it->second;
  hidden_.erase(it);
  return stream;
}

}  // namespace sim::allocator
