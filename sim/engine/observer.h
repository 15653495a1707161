// observer.h — what a replay tells those who watch: every operation on every stream, every change
// of memory, and what the allocator looks like when a rank runs out of memory and at the end.
// Observers are called in the order of issue of one rank class; classes interleave in the order in
// which their work became known.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/units.h"
#include "sim/engine/report.h"

namespace sim::engine {

// A tensor came (delta > 0) or went at the CPU's clock; totals are after the change.
struct MemoryChange {
  int rank_class = 0;
  Time when{};
  program::Category category = program::Category::other;
  std::int64_t delta = 0;    // bytes of its block
  std::int64_t address = 0;  // of its block
  std::string_view label;    // "" when it went
  const Place& place;
  Bytes allocated{}, reserved{};
  std::span<const allocator::TraceEntry> trace;  // what the allocator did since the last change
};

// The allocator of a rank class at the moment it runs out of memory, before it is given more than
// the device has, or behind the last operation.
struct MemoryState {
  int rank_class = 0;
  Time when{};
  bool out_of_memory = false;
  const allocator::Allocator& allocator;
  std::span<const allocator::TraceEntry> trace;  // what the allocator did since the last change
};

// One end of a message between two classes. `number` is the same at the other end, and no other
// message's: who sends, who receives, on which channel, and how many came before there.
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

struct Observer {
  virtual ~Observer() = default;
  // An operation ran on a stream of a rank class from `start` to `end`. `waited_until` >= start is
  // when its partners were there (collectives and exchanges), else == start.
  virtual void operation(int rank_class, program::Stream stream, std::string_view name,
                         const Place& place, Time start, Time waited_until, Time end) = 0;
  // The messages of the operation that is told of next: an exchange between stages.
  virtual void messages(int, std::span<const MessageEnd>) {}
  virtual void memory(const MemoryChange& change) = 0;
  virtual void memory_state(const MemoryState&) {}
};

// Tells several observers, in order. They outlive it.
struct Observers final : Observer {
  std::vector<Observer*> all;

  void operation(int rank_class, program::Stream stream, std::string_view name, const Place& place,
                 Time start, Time waited_until, Time end) override {
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
