// naive_allocator.h — a second caching allocator, as plain as the rules themselves.
//
// THIS CODE IS FOR TESTS ONLY. One map of blocks by address, every question answered by walking
// over it, every statistic counted anew. Written from the rules alone, to disagree with the fast
// allocator wherever that one is wrong.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "sim/allocator/allocator.h"

namespace naive {

using sim::allocator::Action;
using sim::allocator::Driver;
using sim::allocator::Event;
using sim::allocator::Options;
using sim::allocator::Rules;
using sim::allocator::TraceEntry;

struct Block {
  std::int64_t address = 0, size = 0, requested = 0, stamp = 0;
  std::int64_t segment = 0;  // address of its segment
  int stream = 0, pool = 0, events = 0;
  bool small = false, allocated = false, mapped = true, expandable = false;
  std::set<int> uses, capture_uses;

  bool idle() const { return !allocated && events == 0 && uses.empty(); }
  bool free() const { return idle() && mapped; }
};

struct Counts {
  std::int64_t allocated = 0, reserved = 0, active = 0, requested = 0, inactive_split = 0;
  std::int64_t allocations = 0, segments = 0, actives = 0, inactive_splits = 0;
};

class Allocator {
 public:
  Allocator(Driver& driver, Options options, Rules rules)
      : driver_(driver), options_(options), newer_(rules == Rules::newer) {}

  // The address, or -1 when out of memory.
  std::int64_t allocate(std::int64_t request, int stream);
  void free(std::int64_t address);
  void record_stream(std::int64_t address, int stream);
  void empty_cache() { release_all(); }
  void set_fraction(double fraction);
  void set_options(const Options& options) { options_ = options; }
  void begin_pool(int pool);
  void end_pool(int pool);
  void release_pool(int pool) { --users_.at(pool); }

  Counts counts() const;
  const std::map<std::int64_t, Block>& blocks() const { return blocks_; }

  std::vector<TraceEntry> trace;
  std::int64_t retries = 0, ooms = 0, syncs = 0, device_allocs = 0, device_frees = 0;

 private:
  struct Want {
    std::int64_t size = 0, segment = 0;
    int stream = 0, pool = 0;
    bool small = false;
  };

  Block* neighbour(const Block& block, int direction);
  std::vector<Block*> free_blocks(int pool, bool small, const int* stream);
  Block* find(const Want& want);
  Block* grow(const Want& want, bool retry);
  Block* grow_expandable(const Want& want);
  Block* map(Block* block, std::int64_t bytes);
  Block* merge(Block* block);
  void cut(Block& block, std::int64_t size);
  void complete(Block& block);
  void process_events(bool wait);
  void record_events(Block& block);
  bool release_available(const Want& want);
  void release_all();
  void release_pool_memory(int pool, bool small);
  void release(Block& block);
  void unmap(Block& block);
  void collect_garbage();
  bool split_off(const Want& want, const Block& block) const;

  Driver& driver_;
  Options options_;
  bool newer_;
  std::map<std::int64_t, Block> blocks_;
  std::map<std::int64_t, std::int64_t> pages_;  // expandable segment -> page size
  std::map<std::pair<int, bool>, std::int64_t> searches_;
  std::map<int, std::deque<std::pair<Event, std::int64_t>>> queues_;
  std::vector<std::int64_t> deferred_;
  std::vector<int> regions_;
  std::map<int, int> users_;
  std::int64_t total_ = 0, limit_ = -1;
};

}  // namespace naive
