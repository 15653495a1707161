// recording.h — a recorded history of one device: where it starts, what happened, where it ends.
//
// A snapshot gives the end and the events before it. The start is recovered by walking the events
// backwards from the end: what was allocated goes, what was freed returns, segments come and go.
// A block that was there at the start and freed later has left no size behind, only its request;
// it had the rounded request, or, in the large pool, up to 1 MiB more when it was not worth
// splitting. What lies behind it tells which.
//
// Replayed through our allocator, every allocation must land at the recorded address, every
// segment event must be the recorded one, and the last map must be the snapshot's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/base/result.h"

namespace sim::allocator {

// A block that was in use when the recording began.
struct InitialBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  bool pending = false;  // freed, but a stream had not finished with it
};

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
  // How the private pools of the snapshot are numbered, from 1.
  std::map<std::pair<std::int64_t, std::int64_t>, int> pools;

  int pool_number(const SnapshotSegment& segment) const {
    const auto it = pools.find({segment.pool_first, segment.pool_second});
    return it == pools.end() ? 0 : it->second;
  }
};

// `name` opens the diagnostics: a history that cannot lead to its snapshot.
Result<Recording> recover(const DeviceSnapshot& device, const Options& options,
                          std::string_view name);

struct RecordingReplay {
  std::int64_t allocations = 0;
  std::int64_t allocations_at_recorded_address = 0;
  std::int64_t segment_events = 0;
  std::int64_t segment_events_matched = 0;
  std::int64_t segment_events_unexpected = 0;  // ours, without a recorded one
  bool final_map_identical = false;
  std::string first_difference;  // empty when everything is as recorded
  Statistics statistics;

  bool exact() const {
    return allocations == allocations_at_recorded_address &&
           segment_events == segment_events_matched && segment_events_unexpected == 0 &&
           final_map_identical;
  }
};

RecordingReplay replay_recording(const Recording& recording, Rules rules = Rules::newer);

// All devices of a snapshot, added up.
Result<RecordingReplay> replay_snapshot(const Snapshot& snapshot, Rules rules,
                                        std::string_view name);

}  // namespace sim::allocator
