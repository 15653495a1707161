// observer.h — the interface through which a replay reports every operation and memory change.
//
// Traces, timelines and memory snapshots implement it (rooms `output` and `command`). An engine
// calls an observer for every operation on every stream and every change of memory. It also shows
// the allocator when a rank runs out of memory, and at the end.
//
// The calls of one rank class come in the order of issue. Classes interleave in the order in which
// the engine learns the times of their work. With an observer, the fast engine takes no shortcuts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/units.h"
#include "sim/engine/report.h"

namespace sim::engine {

// A tensor was allocated (delta > 0) or freed (delta < 0). The totals are those after the change.
struct MemoryChange {
  int rank_class = 0;
  Time when{};  // on the CPU's clock
  program::Category category = program::Category::other;
  std::int64_t delta = 0;    // bytes of its block
  std::int64_t address = 0;  // of its block
  std::string_view label;    // name of the tensor; "" for a free
  const ProgramLocation& place;
  Bytes allocated{}, reserved{};
  std::span<const allocator::TraceEntry> trace;  // allocator actions since the last change
};

// The allocator of a rank class. It is shown when the class runs out of memory (before the engine
// lifts the limit of the device), and after the last operation.
struct MemoryState {
  int rank_class = 0;
  Time when{};
  bool out_of_memory = false;
  const allocator::Allocator& allocator;
  std::span<const allocator::TraceEntry> trace;  // allocator actions since the last change
};

// One end of a message between two rank classes. Both ends have the same `number`, and no other
// message has it. It encodes sender, receiver, channel, and the count of earlier messages there.
struct MessageEnd {
  bool sends = false;
  std::uint64_t number = 0;
};
inline MessageEnd message_end(int rank_class, int other, bool sends, std::uint8_t channel,
                              std::int64_t before) {
  const auto from = static_cast<std::uint64_t>(sends ? rank_class : other);
  const auto to = static_cast<std::uint64_t>(sends ? other : rank_class);
  return {sends, (from << 50) | (to << 36) | (std::uint64_t{channel} << 32) |
                     static_cast<std::uint64_t>(before)};
}

// See the file comment.
struct Observer {
  virtual ~Observer() = default;
  // An operation ran on a stream from `start` to `end`. `waited_until` is the time at which all its
  // peers had arrived (collectives and exchanges); for other operations it is `start`.
  virtual void operation(int rank_class, program::Stream stream, std::string_view name,
                         const ProgramLocation& place, Time start, Time waited_until, Time end) = 0;
  // The messages of the next operation() call, which is an exchange between pipeline stages.
  virtual void messages(int, std::span<const MessageEnd>) {}
  virtual void memory(const MemoryChange& change) = 0;
  virtual void memory_state(const MemoryState&) {}
};

// Forwards every call to several observers, in order. REQUIRES: they outlive this object.
struct Observers final : Observer {
  std::vector<Observer*> all;

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const ProgramLocation& place, Time start, Time waited_until, Time end) override {
    for (Observer* one : all)
      one->operation(rank_class, stream, name, place, start, waited_until, end);
  }
  void messages(int rank_class, std::span<const MessageEnd> ends) override {
    for (Observer* one : all) one->messages(rank_class, ends);
  }
  void memory(const MemoryChange& change) override {
    for (Observer* one : all) one->memory(change);
  }
  void memory_state(const MemoryState& state) override {
    for (Observer* one : all) one->memory_state(state);
  }
};

}  // namespace sim::engine
