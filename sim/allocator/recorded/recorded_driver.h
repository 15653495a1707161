// recorded_driver.h — a driver that returns the addresses that a recorded process got.
//
// replay_recording() uses it: before each call of the allocator it announces the recorded segment
// events of that call.
//
// Invariants
//  (1) It never returns an address range that overlaps one in use. If the recorded address would,
//      or none is recorded, it invents an address above all recorded ones.
//  (2) While `strict`, a call without a record fails, because it failed in the recorded process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sim/allocator/driver.h"
#include "sim/allocator/recorded/snapshot.h"

namespace sim::allocator {

class RecordedDriver final : public Driver {
 public:
  // Announces the recorded segment events of the next call, in order.
  void expect(std::vector<SnapshotEntry> events, bool strict);
  // Marks an address range as in use from the start.
  void occupy(std::int64_t address, std::int64_t bytes) { used_[address] = bytes; }
  // A recording does not tell which streams use a freed block, only when the block became available
  // again. Each such block therefore gets a hidden stream of its own, which reach() finishes.
  void reach(int hidden_stream) { reached_.insert(hidden_stream); }
  // Undoes reach(): the stream finishes only if the allocator waits for it.
  void hold(int hidden_stream) { reached_.erase(hidden_stream); }

  std::optional<std::int64_t> cuda_malloc(Bytes size) override;
  void cuda_free(std::int64_t address, Bytes size) override;
  std::optional<std::int64_t> reserve_addresses(Bytes size) override;
  void release_addresses(std::int64_t address, Bytes size) override;
  bool map(std::int64_t address, Bytes size) override;
  void unmap(int stream, std::int64_t address, Bytes size) override;
  Event record_event(int stream) override { return {stream, 0}; }
  bool event_reached(const Event& event) override { return reached_.count(event.stream) > 0; }
  void wait(const Event&) override {}
  Bytes total_memory() const override { return {std::int64_t{1} << 44}; }
  Bytes free_memory() const override { return {0}; }

 private:
  bool next_is(Action action) const {
    return next_ < expected_.size() && expected_[next_].action == action;
  }
  std::optional<std::int64_t> take(std::int64_t address, std::int64_t bytes);
  bool overlaps(std::int64_t address, std::int64_t bytes) const;

  std::vector<SnapshotEntry> expected_;
  std::size_t next_ = 0;
  bool strict_ = false;
  std::map<std::int64_t, std::int64_t> used_;
  std::set<int> reached_;
  std::int64_t invented_ = std::int64_t{1} << 61;
};

}  // namespace sim::allocator
