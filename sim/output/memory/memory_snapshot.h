// memory_snapshot.h — writes a replay's memory as a PyTorch snapshot: the pickle of
// torch.cuda.memory._dump_snapshot, which pytorch.org/memory_viz opens. Stack frames contain names
// of the replay. Each rank class is a device.
//
// Invariants
// (1) Keys and their types are those of PyTorch 2.7's snapshots.
// (2) The history leads to the segments: `rehearse memory replay` repeats it address by address.
// (3) At most `most_entries` of the newest events are stored, like PyTorch's `max_entries`.
//
// A class that runs out of memory ends there: its last event is the `oom`, and its segments are
// those of that time. Streams are numbered as in program/ir/program.h. Times are microseconds since
// the start.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "sim/engine/observer.h"

namespace sim::output {

class MemorySnapshot final : public engine::Observer {
 public:
  static constexpr std::size_t default_entries = 1'000'000;

  explicit MemorySnapshot(std::size_t classes, std::size_t most_entries = default_entries);

  void operation(int, program::Stream, std::string_view, const engine::ProgramLocation&, Time, Time,
                 Time) override {}
  void memory(const engine::MemoryChange& change) override;
  void memory_state(const engine::MemoryState& state) override;

  // The pickle. REQUIRES: the replay has ended.
  std::string pickle() const;

 private:
  // Origin of an event. It becomes text for stack frames only when it is written, since most events
  // of a long run are dropped.
  struct Origin {
    std::uint32_t label = 0, block = 0;  // index in texts_; 0: ""
    int layer = 0, microbatch = 0, step = 0;
    program::PassKind pass{};
    bool known = false;  // false: no frames
    friend auto operator<=>(const Origin&, const Origin&) = default;
  };
  struct Entry {
    allocator::TraceEntry event;
    std::int64_t time_us = 0;
    Origin origin;
  };
  struct Class {
    std::deque<Entry> entries;
    std::map<std::int64_t, Origin> allocated_at;  // by address
    std::map<std::int64_t, Origin> segment_at;
    std::vector<allocator::SegmentView> segments;
    bool closed = false;
  };

  std::uint32_t intern(std::string_view text);
  void add(Class& own, std::span<const allocator::TraceEntry> trace, Time when,
           const Origin& origin);
  class Dump;  // writes the pickle

  std::size_t entries_per_class_;
  std::vector<Class> classes_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<std::string> texts_;
  allocator::Options options_;
};

}  // namespace sim::output
