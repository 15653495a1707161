// snapshot.h — PyTorch's memory snapshot: the segments at its end and the history before it.
//
// `rehearse memory` and the calibration of memory call it. The layout is that of
// torch.cuda.memory._snapshot() and of the pickle of _dump_snapshot: a dict of "segments",
// "device_traces", "allocator_settings" and, in newer files, more. The reader ignores fields that a
// replay does not need: stack frames, times, annotations.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/result.h"

namespace sim::allocator {

// Addresses and sizes in bytes, names as in PyTorch.
struct SnapshotBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  BlockState state = BlockState::inactive;
};

struct SnapshotSegment {
  std::int64_t address = 0;
  std::int64_t total = 0;
  std::int64_t stream = 0;  // handle of the stream; 0 is the default stream
  bool small = false;
  bool expandable = false;
  std::int64_t pool_first = 0;  // segment_pool_id; (0, 0) is the default pool
  std::int64_t pool_second = 0;
  std::vector<SnapshotBlock> blocks;  // they tile the segment
};

struct SnapshotEntry {
  Action action = Action::alloc;
  std::int64_t address = 0;  // oom: free bytes of the device
  std::int64_t size = 0;
  std::int64_t stream = 0;
};

struct DeviceSnapshot {
  std::vector<SnapshotSegment> segments;  // by address
  std::vector<SnapshotEntry> entries;     // oldest first
};

struct Snapshot {
  Options options;
  std::vector<DeviceSnapshot> devices;
};

// Reads the pickle of a snapshot. Diagnostics start with `name` and a byte offset or the path of
// the value.
Result<Snapshot> read_snapshot(std::string_view bytes, std::string_view name);

}  // namespace sim::allocator
