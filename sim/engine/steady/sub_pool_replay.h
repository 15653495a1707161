// sub_pool_replay.h — memory of a class whose times repeat, sub-pool by sub-pool: cycle_trace.h says what
// a cycle does, sub_pool_machine.h replays a sub-pool, here they are put together and held to the peaks.
//
// A sub-pool that comes back to an earlier state rests while the others go on. What the sub-pools cannot
// say alone is when all tensors together reach a new peak: that is noted where it could happen, and
// such a cycle is left to the allocator itself, as is one that needs the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/allocator/sub_pools/sub_pool_machine.h"
#include "sim/engine/steady/cycle_trace.h"
#include "sim/engine/steady/memory_replay.h"

namespace sim::engine {

class SubPoolReplay final : public MemoryReplay {
 public:
  // The trace begins with cycle `from`. `length` is that of a cycle, `cut` when the CPU reaches
  // the begin of one, counted from it; both in ps.
  SubPoolReplay(CycleTrace trace, std::int64_t from, std::int64_t length, std::int64_t cut);

  // From which cycle on it can take over.
  std::int64_t first() const { return from_ + trace_.cycles; }
  // For a later time at which the same cycle comes again: from `cycle` on, counted from there.
  void start_from(std::int64_t cycle);
  // Takes over at the begin of cycle `cycle`, at `begin`. False: it cannot, nothing changed.
  bool enter(RankState& r, std::int64_t cycle, Time begin);
  // Between enter and leave.
  bool on() const { return !sub_pools_.empty(); }
  // Cycles that are replayed.
  std::int64_t done() const override { return done_; }

  // Replays up to cycle `end`. Where a cycle needs the driver or may reach a new peak, it says
  // which one, and the state is of no use until put_back().
  Reached advance(std::int64_t end) override;
  void keep() override;
  void put_back() override;

  // Puts memory at the begin of cycle done() back into `r`, whose live frames are `live` there.
  void leave(RankState& r, Time begin, std::span<const std::uint32_t> live);
  // Ends without that.
  void drop() { sub_pools_.clear(); }

 private:
  static constexpr std::int64_t first_slack_room = std::int64_t{64} << 20;

  // One sub-pool at work.
  struct Own {
    int stream = 0;
    bool small = false;
    std::vector<allocator::NodeId> segments;  // their first blocks
    std::optional<allocator::SubPoolMachine> machine;
    std::vector<allocator::SubPoolMachine::Slack> notes;  // since entered_

    // The slack at note k of a cycle.
    allocator::SubPoolMachine::Slack noted(std::int64_t cycle, std::int64_t entered, int k) const;
  };
  // A sub-pool's stream, and whether it is of the small pool.
  using Name = std::pair<int, bool>;
  // Bytes that all sub-pools hold at an event that places, but for the slack.
  struct Height {
    std::size_t event = 0;
    std::int64_t allocated = 0, active = 0;
  };
  // When the streams have let a tensor go: at an event of a cycle (or behind the last one), so
  // many cycles behind that in which it was freed.
  struct Release {
    std::size_t event = 0;
    int cycles = 0;
  };
  struct Waiting {
    std::int32_t tensor = 0;
    int age = 0;        // placed so many cycles ago
    int freed_ago = 0;  // ... and freed
  };

  // A block that was there before the first cycle and stays.
  struct Permanent {
    std::uint32_t slot = 0;
    program::Category category{};
    program::Streams recorded = 0;
    std::int64_t requested = 0;
    int sub_pool = 0;
    allocator::NodeId node = -1;
  };
  // A block's sub-pool and node.
  struct Place {
    int sub_pool = -1;
    allocator::NodeId node = -1;
  };

  // Which sub-pools a code was written for, and where it notes the slack.
  struct CodesFor {
    std::vector<Name> sub_pools;
    std::vector<std::size_t> notes;  // events

    friend bool operator==(const CodesFor&, const CodesFor&) = default;
  };

  Name name_of(std::size_t tensor) const;
  Release release_of(std::size_t tensor) const;
  std::vector<Waiting> find_waits() const;
  void find_heights();
  std::int64_t slack_in_groups() const;
  // The sub-pools and what is in them, as they are in the allocator.
  struct Found;
  bool find_sub_pools(const RankState& r, Found& found) const;
  bool find_waiting(const RankState& r, Time begin, Found& found) const;
  void find_critical(const RankState& r, const Found& found);
  void write_codes(Found& found);
  bool slack_outgrown() const;
  std::int64_t first_peak(std::int64_t from, std::int64_t to) const;

  CycleTrace trace_;
  std::int64_t from_ = 0, length_ = 0, cut_ = 0;
  std::vector<std::int64_t> bytes_;    // by tensor, rounded
  std::vector<std::size_t> freed_at_;  // events, by tensor
  std::vector<std::size_t> places_;    // events that place, in order
  std::vector<Release> releases_;      // by tensor
  std::vector<std::size_t> released_;  // tensors that wait for streams, by Release::event
  std::vector<Waiting> waits_;         // between two cycles, in the order they were freed
  std::vector<Name> names_;            // of the sub-pools of tensors, each once
  std::vector<Height> heights_;        // above what is there between two cycles
  Height highest_;                     // the most of either
  bool repeats_ = false;               // a cycle ends with what it began with
  std::int64_t slack_in_groups_ = 0;
  std::vector<std::pair<int, int>> home_;  // by tensor: its sub-pool, its number there
  CodesFor codes_for_;
  std::vector<std::shared_ptr<const allocator::SubPoolCode>> codes_;  // by sub-pool
  std::vector<Own> sub_pools_;
  std::vector<Height> critical_;  // where a peak may be reached
  std::int64_t peak_allocated_ = 0, peak_active_ = 0;
  // How much slack was reckoned with where nothing was noted, but for that of tensors that groups
  // leave out; by how much that is more than there was.
  std::int64_t slack_most_ = 0, slack_room_ = first_slack_room;
  std::int64_t entered_ = 0, done_ = 0;

  // Of sub-pools that do not rest. What is kept is written over what was kept before: it has the room.
  struct Retained {
    std::vector<std::optional<allocator::SubPoolMachine>> machines;
    std::vector<std::size_t> notes;
    std::int64_t done = 0;
  };
  Retained kept_;
  std::vector<Permanent> permanent_;
};

}  // namespace sim::engine
