// recording.h — a recorded memory history of one device: its start, its events, its end.
//
// `rehearse memory` calls it for PyTorch's memory snapshots. A snapshot has the end and the events
// before it. recover() finds the start by undoing the events from the last to the first.
// replay_recording() then runs the events through our allocator. In an exact replay, all three
// agree: the address of every allocation, every segment event, and the final memory map.
//
// One size is not recorded: that of a block in use at the start and freed later; only its request
// is. The block has the rounded request, or, in the large pool, up to 1 MiB more if it was not
// worth splitting. The addresses of its right neighbours decide which.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/allocator/recorded/peak_state.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/base/result.h"

namespace sim::allocator {

// A block that was in use when the recording began.
struct InitialBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  bool pending = false;  // freed, but another stream still used it
};

// Addresses and sizes in bytes.
struct Recording {
  struct Segment {
    std::int64_t address = 0;
    std::int64_t total = 0;
    std::int64_t stream = 0;
    int pool = 0;  // private pools numbered from 1
    bool small = false;
    bool expandable = false;
  };

  Options options;
  std::vector<Segment> segments;      // at the start, by address
  std::vector<InitialBlock> blocks;   // at the start, by address
  std::vector<SnapshotEntry> events;  // oldest first
  std::vector<SnapshotSegment> end;   // by address
  // Our numbers of the private pools, from 1, by the pair of ids in the snapshot.
  std::map<std::pair<std::int64_t, std::int64_t>, int> pools;

  int pool_number(const SnapshotSegment& segment) const {
    const auto it = pools.find({segment.pool_first, segment.pool_second});
    return it == pools.end() ? 0 : it->second;
  }
};

// Recovers the start of a history. Diagnostics start with `name`; they mean that the history cannot
// lead to its snapshot.
Result<Recording> recover(const DeviceSnapshot& device, const Options& options,
                          std::string_view name);

// The result of a replay: counts of recorded events and of those that our allocator repeated.
struct RecordingReplay {
  std::int64_t allocations = 0;
  std::int64_t allocations_at_recorded_address = 0;
  std::int64_t segment_events = 0;
  std::int64_t segment_events_matched = 0;
  std::int64_t segment_events_unexpected = 0;  // of our allocator, but not recorded
  bool final_map_identical = false;
  std::string first_difference;  // "" if there is none
  // Of one device: of several, the one that reserves most.
  Statistics statistics;
  PeakState at_peak;
  std::size_t device = 0, devices = 1;  // its number, and how many there are

  bool exact() const {
    return allocations == allocations_at_recorded_address &&
           segment_events == segment_events_matched && segment_events_unexpected == 0 &&
           final_map_identical;
  }
};

RecordingReplay replay_recording(const Recording& recording, Rules rules = Rules::newer);

// Recovers and replays all devices of a snapshot. The counts are sums over the devices.
Result<RecordingReplay> replay_snapshot(const Snapshot& snapshot, Rules rules,
                                        std::string_view name);

}  // namespace sim::allocator
