// recording_replay.cpp — replays a recorded history and counts the events that agree.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/allocator/recorded/recorded_blocks.h"
#include "sim/allocator/recorded/recorded_driver.h"
#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/recording_ranges.h"

namespace sim::allocator {
namespace {

// Largest number of segments to inspect in all: each release may inspect every segment.
constexpr std::int64_t most_looks = 100'000'000;

bool is_segment_event(Action action) {
  return takes(action) || gives_back(action);
}

Options options_for(const Recording& recording, const Ranges& ranges) {
  Options options = recording.options;
  options.expandable_reserve_bytes = std::max(ranges.shortest, options.large_segment);
  options.expandable_reserve_fraction = 0.0;
  options.per_process_memory_fraction = 1.0;  // the recorded events contain the limit's effect
  options.garbage_collection_threshold = 0.0;
  return options;
}

class RecordingReplayer {
 public:
  RecordingReplayer(const Recording& recording, Rules rules)
      : recording_(recording),
        streams_(stream_numbers(recording)),
        ranges_(address_ranges(recording)),
        allocator_(driver_, options_for(recording, ranges_), rules) {}

  RecordingReplay run() {
    restore();
    result_.at_peak.look(allocator_);
    allocator_.set_trace(&produced_);
    for (std::size_t i = 0; i < recording_.events.size();) i = step(i);
    allocator_.poll();
    result_.final_map_identical = compare_maps();
    result_.statistics = allocator_.statistics();
    return result_;
  }

 private:
  using Piece = Allocator::Piece;

  int stream(std::int64_t handle) const { return streams_.at(static_cast<std::uint64_t>(handle)); }

  void differ(const std::string& what) {
    if (result_.first_difference.empty()) result_.first_difference = what;
  }

  // Divides the mapped range [from, to) into the blocks in use and the free gaps between them.
  void add_pieces(std::int64_t from, std::int64_t to, std::vector<Piece>& pieces) {
    for (; next_block_ < recording_.blocks.size(); ++next_block_) {
      const InitialBlock& block = recording_.blocks[next_block_];
      if (block.address >= to) break;
      if (block.address > from) pieces.push_back({Piece::Kind::free, block.address - from, 0});
      pieces.push_back({Piece::Kind::allocated, block.size, block.requested});
      from = block.address + block.size;
    }
    if (from < to) pieces.push_back({Piece::Kind::free, to - from, 0});
  }

  void restore() {
    std::map<Group, Allocator::InitialSegment> expandable;
    std::vector<const InitialBlock*> order;
    for (const Recording::Segment& segment : recording_.segments) {
      const std::size_t first = next_block_;
      Allocator::InitialSegment made{
          segment.address, stream(segment.stream), segment.pool, segment.small, 0, {}};
      if (!segment.expandable) {
        add_pieces(segment.address, segment.address + segment.total, made.pieces);
        driver_.occupy(segment.address, segment.total);
        restore_segment(made, first);
        continue;
      }
      const Group group{segment.stream, segment.pool, segment.small};
      auto [it, fresh] = expandable.try_emplace(group, made);
      Expandable& state = expandable_[group];
      if (fresh) {
        it->second.page = segment.small ? small_segment : recording_.options.large_segment;
        state.end = segment.address;
      } else if (segment.address > state.end) {
        it->second.pieces.push_back({Piece::Kind::unmapped, segment.address - state.end, 0});
      }
      add_pieces(segment.address, segment.address + segment.total, it->second.pieces);
      state.end = segment.address + segment.total;
      for (std::size_t i = first; i < next_block_; ++i) state.blocks.push_back(i);
    }
    for (auto& [group, segment] : expandable) restore_expandable(group, segment);
    for (const std::size_t i : pending_) blocks_.free_later(recording_.blocks[i].address);
  }

  void restore_segment(const Allocator::InitialSegment& segment, std::size_t first) {
    std::vector<BlockId> ids;
    allocator_.restore(segment, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) own(first + i, ids[i]);
  }

  void restore_expandable(const Group& group, Allocator::InitialSegment& segment) {
    const Expandable& state = expandable_[group];
    const auto& [base, bytes] = ranges_.of.at(group);
    if (base + bytes > state.end) {
      segment.pieces.push_back({Piece::Kind::unmapped, base + bytes - state.end, 0});
    }
    if (segment.address > base) {
      segment.pieces.insert(segment.pieces.begin(),
                            {Piece::Kind::unmapped, segment.address - base, 0});
      segment.address = base;
    }
    driver_.occupy(base, std::max(bytes, state.end - base));
    std::vector<BlockId> ids;
    allocator_.restore(segment, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) own(state.blocks[i], ids[i]);
  }

  void own(std::size_t initial_block, BlockId id) {
    const InitialBlock& block = recording_.blocks[initial_block];
    blocks_.own(block.address, id);
    if (block.pending) pending_.push_back(initial_block);
  }

  // Replays the event at i. Returns the index of the next event.
  std::size_t step(std::size_t i) {
    const SnapshotEntry& event = recording_.events[i];
    switch (event.action) {
      case Action::free_requested:
        return blocks_.free(recording_, i);
      case Action::alloc:
      case Action::oom:
        return call(i, i);
      default:
        break;
    }
    // The segment events and completed frees up to the next call belong to one call.
    std::size_t end = i;
    bool segments = false;
    for (; end < recording_.events.size(); ++end) {
      const Action action = recording_.events[end].action;
      if (!is_segment_event(action) && action != Action::free_completed) break;
      segments = segments || is_segment_event(action);
    }
    if (segments) return call(i, end);
    for (std::size_t k = i; k < end; ++k) complete(recording_.events[k]);
    return end > i ? end : i + 1;
  }

  void complete(const SnapshotEntry& event) {
    if (const auto stream = blocks_.complete(event.address)) driver_.reach(*stream);
  }

  // Replays the call at `end`, if there is one. Events [begin, end) came before it or in it.
  std::size_t call(std::size_t begin, std::size_t end) {
    std::vector<SnapshotEntry> recorded;
    std::vector<int> completed;
    for (std::size_t i = begin; i < end; ++i) {
      const SnapshotEntry& event = recording_.events[i];
      if (event.action == Action::free_completed) {
        if (const auto stream = blocks_.complete(event.address)) {
          completed.push_back(*stream);
          driver_.reach(*stream);
        }
      } else {
        recorded.push_back(event);
      }
    }
    produced_.clear();
    // Memory is given back first: empty_cache, or a retry, which leads to the same state. Memory is
    // taken first and then given back: the call itself ran into the limit.
    auto taken = std::find_if_not(recorded.begin(), recorded.end(),
                                  [](const auto& e) { return gives_back(e.action); });
    bool pressed =
        std::any_of(taken, recorded.end(), [](const auto& e) { return gives_back(e.action); });
    const bool calls = end < recording_.events.size() && taken != recorded.end();
    if (calls && waited({recorded.begin(), taken}, completed)) {
      // These frees completed inside the call, after its search for a free block.
      for (const int stream : completed) driver_.hold(stream);
      taken = recorded.begin();
      pressed = true;
    }
    if (taken != recorded.begin()) release({recorded.begin(), taken});
    driver_.expect({taken, recorded.end()}, pressed);
    std::size_t next = end;
    if (end < recording_.events.size()) {
      const SnapshotEntry& event = recording_.events[end];
      if (event.action == Action::alloc) allocate(event, end), ++next;
      if (event.action == Action::oom) fail(event, pressed), ++next;
    }
    compare_segment_events(recorded, begin);
    return next;
  }

  void allocate(const SnapshotEntry& event, std::size_t index) {
    ++result_.allocations;
    if (event.size <= 0) return;
    const BlockId id = blocks_.allocate(event.address, event.size, stream(event.stream),
                                        pool_at(recording_, event.address));
    if (id == no_block) {
      return differ(fmt::format("entry {}: {} bytes are out of memory", index, event.size));
    }
    result_.at_peak.look(allocator_);
    if (allocator_.address(id) == event.address) {
      ++result_.allocations_at_recorded_address;
    } else {
      differ(fmt::format("entry {}: {} bytes land at {}, recorded {}", index, event.size,
                         allocator_.address(id), event.address));
    }
  }

  void fail(const SnapshotEntry& event, bool pressed) {
    allocator_.poll();
    if (!pressed || event.size <= 0) return;
    const BlockId id = allocator_.allocate(event.size, stream(event.stream));
    if (id != no_block) allocator_.free(id);
  }

  void release(const std::vector<SnapshotEntry>& run) {
    driver_.expect(run, false);
    allocator_.poll();  // a retry waits for every stream first: completed frees are cached now
    const bool unmaps = std::any_of(
        run.begin(), run.end(), [](const auto& e) { return e.action == Action::segment_unmap; });
    if (unmaps || is_everything(run, allocator_)) return allocator_.empty_cache();
    for (const SnapshotEntry& event : run) allocator_.release_segment(event.address);
  }

  // Whether a retry waited for every stream and then freed `run`: no block waits any more, and
  // `run` is all segments that were cached then.
  bool waited(const std::vector<SnapshotEntry>& run, const std::vector<int>& completed) {
    if (run.empty() || completed.empty() || blocks_.waits() || looks_ > most_looks) return false;
    looks_ += static_cast<std::int64_t>(blocks_.live());
    Allocator then = allocator_;
    then.set_trace(nullptr);
    then.poll();
    return is_everything(run, then);
  }

  // Whether `run` is all segments that empty_cache would free.
  bool is_everything(const std::vector<SnapshotEntry>& run, const Allocator& allocator) {
    if (looks_ > most_looks) return false;
    std::size_t cached = 0;
    for (const SegmentView& segment : allocator.segments()) {
      ++looks_;
      const bool whole = segment.blocks.size() == 1 && segment.active == 0;
      if (whole && segment.pool == 0 && !segment.expandable) ++cached;
    }
    return cached == run.size();
  }

  void compare_segment_events(const std::vector<SnapshotEntry>& recorded, std::size_t index) {
    std::vector<TraceEntry> own;
    for (const TraceEntry& entry : produced_) {
      if (is_segment_event(entry.action)) own.push_back(entry);
    }
    result_.segment_events += static_cast<std::int64_t>(recorded.size());
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      const SnapshotEntry& want = recorded[i];
      if (i < own.size() && own[i].action == want.action && own[i].address == want.address &&
          own[i].size == want.size && own[i].stream == stream(want.stream)) {
        ++result_.segment_events_matched;
        continue;
      }
      differ(fmt::format("entry {}: recorded {} of {} bytes at {} does not happen", index + i,
                         name(want.action), want.size, want.address));
    }
    if (own.size() <= recorded.size()) return;
    result_.segment_events_unexpected += static_cast<std::int64_t>(own.size() - recorded.size());
    differ(fmt::format("entry {}: {} of {} bytes is not recorded", index,
                       name(own[recorded.size()].action), own[recorded.size()].size));
  }

  bool compare_maps() {
    const std::vector<SegmentView> own = allocator_.segments();
    const auto wrong = [&](std::int64_t address) {
      differ(fmt::format("the last map differs at address {}", address));
      return false;
    };
    for (std::size_t i = 0; i < std::max(own.size(), recording_.end.size()); ++i) {
      if (i >= own.size()) return wrong(recording_.end[i].address);
      if (i >= recording_.end.size()) return wrong(own[i].address);
      const SegmentView& a = own[i];
      const SnapshotSegment& b = recording_.end[i];
      if (std::tuple(a.address, a.total, a.stream, a.pool, a.small, a.expandable,
                     a.blocks.size()) != std::tuple(b.address, b.total, stream(b.stream),
                                                    recording_.pool_number(b), b.small,
                                                    b.expandable, b.blocks.size())) {
        return wrong(b.address);
      }
      for (std::size_t k = 0; k < b.blocks.size(); ++k) {
        const BlockView& x = a.blocks[k];
        const SnapshotBlock& y = b.blocks[k];
        const bool active = y.state != BlockState::inactive;
        if (std::tuple(x.address, x.size, x.state) != std::tuple(y.address, y.size, y.state) ||
            (active && x.requested != y.requested)) {
          return wrong(y.address);
        }
      }
    }
    return true;
  }

  struct Expandable {
    std::int64_t end = 0;
    std::vector<std::size_t> blocks;  // indices into recording_.blocks
  };

  const Recording& recording_;
  std::map<std::uint64_t, int> streams_;
  Ranges ranges_;
  RecordedDriver driver_;
  Allocator allocator_;
  RecordedBlocks blocks_{allocator_};
  std::vector<TraceEntry> produced_;
  std::map<Group, Expandable> expandable_;
  std::vector<std::size_t> pending_;
  std::size_t next_block_ = 0;
  std::int64_t looks_ = 0;
  RecordingReplay result_;
};

}  // namespace

RecordingReplay replay_recording(const Recording& recording, Rules rules) {
  return RecordingReplayer(recording, rules).run();
}

Result<RecordingReplay> replay_snapshot(const Snapshot& snapshot, Rules rules,
                                        std::string_view name) {
  RecordingReplay sum;
  sum.final_map_identical = true;
  for (std::size_t d = 0; d < snapshot.devices.size(); ++d) {
    const std::string where = fmt::format("{}:device {}", name, d);
    const auto recording = recover(snapshot.devices[d], snapshot.options, where);
    if (!recording) return recording.errors();
    const RecordingReplay one = replay_recording(*recording, rules);
    sum.allocations += one.allocations;
    sum.allocations_at_recorded_address += one.allocations_at_recorded_address;
    sum.segment_events += one.segment_events;
    sum.segment_events_matched += one.segment_events_matched;
    sum.segment_events_unexpected += one.segment_events_unexpected;
    sum.final_map_identical = sum.final_map_identical && one.final_map_identical;
    if (sum.first_difference.empty()) sum.first_difference = one.first_difference;
    if (d == 0 ||
        one.statistics.all.reserved_bytes.peak > sum.statistics.all.reserved_bytes.peak) {
      sum.statistics = one.statistics;
      sum.at_peak = one.at_peak;
      sum.device = d;
    }
  }
  sum.devices = snapshot.devices.size();
  return sum;
}

}  // namespace sim::allocator
