#include "sim/allocator/recorded/other_options.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "sim/allocator/driver.h"
#include "sim/allocator/recorded/recorded_blocks.h"

namespace sim::allocator {
namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 44;  // bytes of the device

// Bytes that the recorded process had reserved before each event, and the most of them.
struct Reserved {
  std::vector<std::int64_t> before;
  std::int64_t most = 0;

  explicit Reserved(const Recording& recording) {
    std::int64_t now = 0;
    for (const Recording::Segment& segment : recording.segments) now += segment.total;
    most = now;
    for (const SnapshotEntry& event : recording.events) {
      before.push_back(now);
      if (takes(event.action)) now += event.size;
      if (gives_back(event.action)) now -= event.size;
      most = std::max(most, now);
    }
  }
};

class RequestsReplayer {
 public:
  RequestsReplayer(const Recording& recording, const Options& options, Rules rules)
      : recording_(recording),
        reserved_(recording),
        streams_(stream_numbers(recording)),
        allocator_(driver_, options, rules) {}

  RequestsReplay run() {
    for (const InitialBlock& block : recording_.blocks) start_with(block);
    for (std::size_t i = 0; i < recording_.events.size();) i = step(i);
    result_.statistics = allocator_.statistics();
    return result_;
  }

 private:
  void start_with(const InitialBlock& block) {
    const Recording::Segment& segment = *std::prev(std::ranges::upper_bound(
        recording_.segments, block.address, {}, &Recording::Segment::address));
    ++result_.initial_blocks;
    allocate(block.address, block.requested, segment.stream, segment.pool);
    if (block.pending) blocks_.free_later(block.address);
  }

  void allocate(std::int64_t address, std::int64_t size, std::int64_t stream, int pool) {
    if (size <= 0) return;
    blocks_.allocate(address, size, streams_.at(static_cast<std::uint64_t>(stream)), pool);
    result_.at_peak.look(allocator_);
  }

  // Replays the event at i. Returns the index of the next event.
  std::size_t step(std::size_t i) {
    const SnapshotEntry& event = recording_.events[i];
    switch (event.action) {
      case Action::alloc:
        ++result_.allocations;
        allocate(event.address, event.size, event.stream, pool_at(recording_, event.address));
        return i + 1;
      case Action::free_requested:
        return blocks_.free(recording_, i);
      case Action::free_completed:
        if (const auto hidden = blocks_.complete(event.address)) driver_.complete(*hidden);
        return i + 1;
      case Action::oom:
        ++result_.failed;
        return i + 1;
      case Action::segment_free:
      case Action::segment_unmap:
        return give_back(i);
      case Action::segment_alloc:
      case Action::segment_map:
        break;
    }
    return i + 1;
  }

  // Memory given back: empty_cache, or a retry, which needs none here.
  std::size_t give_back(std::size_t i) {
    std::size_t end = i;
    while (end < recording_.events.size() && gives_back(recording_.events[end].action)) ++end;
    const bool retry = end < recording_.events.size() && takes(recording_.events[end].action) &&
                       reserved_.before[i] + recording_.events[end].size > reserved_.most;
    const bool collects = recording_.options.garbage_collection_threshold > 0;
    if (!retry && !collects) {
      allocator_.poll();
      allocator_.empty_cache();
    }
    return end;
  }

  const Recording& recording_;
  Reserved reserved_;
  std::map<std::uint64_t, int> streams_;
  BumpDriver driver_{Bytes{no_limit}};
  Allocator allocator_;
  RecordedBlocks blocks_{allocator_};
  RequestsReplay result_;
};

}  // namespace

RequestsReplay replay_requests(const Recording& recording, const Options& options, Rules rules) {
  return RequestsReplayer(recording, options, rules).run();
}

std::string needs_capacity(const Options& options) {
  if (options.garbage_collection_threshold > 0) return "garbage_collection_threshold";
  if (options.per_process_memory_fraction < 1) return "per_process_memory_fraction";
  return "";
}

}  // namespace sim::allocator
