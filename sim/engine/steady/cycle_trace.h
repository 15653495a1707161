// cycle_trace.h — what a period of a repeating program places and frees, without addresses:
// which tensor, placed how many periods ago, each free is of, and when the streams let it go.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/fast/dataflow_rank.h"
#include "sim/engine/steady/memory_code.h"

namespace sim::engine {

struct PeriodTrace {
  // One that every period places: tensors[k] is the k-th of them.
  struct Tensor {
    std::int64_t bytes = 0;  // as asked for
    program::Stream stream{};
    program::Category category{};
    int lives = 0;  // it is freed so many periods after that in which it was placed
    // Streams that it waits for then, and when they let it go, in ps from the begin of the period
    // in which it is freed.
    std::vector<std::pair<int, std::int64_t>> waits;
  };
  struct Event {
    bool places = false;
    std::int32_t tensor = 0;
    std::int64_t when = 0;  // ps from the begin of the period

    friend bool operator==(const Event&, const Event&) = default;
  };
  // A slot that is full between two periods. Slots of frames are numbered as if the live frames
  // were the first ones, the oldest first.
  struct Held {
    std::uint32_t slot = 0;
    std::int32_t tensor = -1;  // -1: there from before, and for good
    std::int32_t age = 0;      // placed so many periods ago
    program::Streams recorded = 0;

    friend bool operator==(const Held&, const Held&) = default;
  };
  std::vector<Tensor> tensors;
  std::vector<Event> events;
  std::vector<Held> held;
  std::int64_t periods = 0;  // it holds from the begin of period `periods` on
};

// The slot of the program for one numbered as in Held.
std::uint32_t actual_slot(const program::Program& program, std::uint32_t slot,
                          std::span<const std::uint32_t> live);

// Follows the tensors of a class from its place on, period n being the passes [bounds[n],
// bounds[n+1]) with the times of the tape, until all that a period frees was placed on the way.
// nullopt when that is not so before the last bound.
std::optional<PeriodTrace> trace_period(const RankState& r,
                                        std::span<const MemoryCode* const> blocks,
                                        std::span<const std::uint32_t> bounds);

}  // namespace sim::engine
