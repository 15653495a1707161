// snapshot.h — PyTorch's memory snapshot: the segments at its end and the history before it.
//
// The layout is that of torch.cuda.memory._snapshot() and of the pickle _dump_snapshot writes: a
// dict of "segments", "device_traces", "allocator_settings" and, in newer files, more. What is not
// needed to replay the memory (stack frames, times, annotations) is left where it is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/result.h"

namespace sim::allocator {

struct SnapshotBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  BlockState state = BlockState::inactive;
};

struct SnapshotSegment {
  std::int64_t address = 0;
  std::int64_t total = 0;
  std::int64_t stream = 0;  // a handle, 0 the default
  bool small = false;
  bool expandable = false;
  std::int64_t pool_first = 0;  // (0, 0) is the default pool
  std::int64_t pool_second = 0;
  std::vector<SnapshotBlock> blocks;  // tile the segment
};

struct SnapshotEntry {
  Action action = Action::alloc;
  std::int64_t address = 0;  // for oom: the device's free memory
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

// `name` opens each diagnostic, followed by a byte offset or by the path of the value.
Result<Snapshot> read_snapshot(std::string_view bytes, std::string_view name);

}  // namespace sim::allocator
