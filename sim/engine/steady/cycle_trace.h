// cycle_trace.h — what a cycle of a repeating program places and frees, without addresses:
// which tensor, placed how many cycles ago, each free is of, and when the streams let it go.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/fast/rank_state.h"
#include "sim/engine/steady/memory_code.h"

namespace sim::engine {

struct CycleTrace {
  // One that every cycle places: tensors[k] is the k-th of them.
  struct Tensor {
    std::int64_t bytes = 0;  // as asked for
    program::Stream stream{};
    program::Category category{};
    int lives = 0;  // it is freed so many cycles after that in which it was placed
    // Streams that it waits for then, and when they let it go, in ps from the begin of the cycle
    // in which it is freed.
    std::vector<std::pair<int, std::int64_t>> waits;
  };
  struct Event {
    bool places = false;
    std::int32_t tensor = 0;
    std::int64_t when = 0;  // ps from the begin of the cycle

    friend bool operator==(const Event&, const Event&) = default;
  };
  // A slot that is full between two cycles. Slots of frames are numbered as if the live frames
  // were the first ones, the oldest first.
  struct Held {
    std::uint32_t slot = 0;
    std::int32_t tensor = -1;  // -1: there from before, and for good
    std::int32_t age = 0;      // placed so many cycles ago
    program::Streams recorded = 0;

    friend bool operator==(const Held&, const Held&) = default;
  };
  std::vector<Tensor> tensors;
  std::vector<Event> events;
  std::vector<Held> held;
  std::int64_t cycles = 0;  // it holds from the begin of cycle `cycles` on
};

// The slot of the program for one numbered as in Held.
std::uint32_t actual_slot(const program::Program& program, std::uint32_t slot,
                          std::span<const std::uint32_t> live);

// Follows the tensors of a class from its place on, cycle n being the passes [bounds[n],
// bounds[n+1]) with the times of the clock log, until all that a cycle frees was placed on the way.
// nullopt when that is not so before the last bound.
std::optional<CycleTrace> trace_cycle(const RankState& r, std::span<const MemoryCode* const> blocks,
                                      std::span<const std::uint32_t> bounds);

}  // namespace sim::engine
