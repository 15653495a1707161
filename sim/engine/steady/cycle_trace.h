// cycle_trace.h — the allocations and frees of one cycle of a repeating program, without addresses.
//
// A free names its tensor and the number of cycles since its allocation. It also lists when the
// streams that use the tensor release it. sub_pool_replay.h replays the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/fast/rank_state.h"
#include "sim/engine/rank/memory_code.h"

namespace sim::engine {

struct CycleTrace {
  // A tensor that every cycle allocates; tensors[k] is the k-th in order of allocation.
  struct Tensor {
    std::int64_t bytes = 0;  // as asked for
    program::Stream stream{};
    program::Category category{};
    int lives = 0;  // cycles from the allocation to the free
    // Streams that the free waits for, and when each is done, in ps from the begin of the freeing
    // cycle.
    std::vector<std::pair<int, std::int64_t>> waits;
  };
  struct Event {
    bool places = false;
    std::int32_t tensor = 0;
    std::int64_t when = 0;  // ps from the begin of the cycle

    friend bool operator==(const Event&, const Event&) = default;
  };
  // A slot that holds a tensor between two cycles. Frame slots are numbered as if the live frames
  // were the first ones, oldest first.
  struct Held {
    std::uint32_t slot = 0;
    std::int32_t tensor = -1;  // -1: allocated before the first cycle and never freed
    std::int32_t age = 0;      // cycles since its allocation
    program::Streams recorded = 0;

    friend bool operator==(const Held&, const Held&) = default;
  };
  std::vector<Tensor> tensors;
  std::vector<Event> events;
  std::vector<Held> held;
  std::int64_t cycles = 0;  // the trace is valid from this cycle on
};

// The slot of the program for a slot numbered as in Held.
std::uint32_t actual_slot(const program::Program& program, std::uint32_t slot,
                          std::span<const std::uint32_t> live);

// Traces the tensors of a class from its current place in the program. Cycle n consists of the
// passes [bounds[n], bounds[n+1]), with the times of the clock log. It stops when it has seen the
// allocation of every tensor that a cycle frees. nullopt: the bounds ended before that.
std::optional<CycleTrace> trace_cycle(const RankState& r, std::span<const MemoryCode* const> blocks,
                                      std::span<const std::uint32_t> bounds);

}  // namespace sim::engine
