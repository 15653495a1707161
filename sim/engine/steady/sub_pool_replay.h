// sub_pool_replay.h — replays the memory of a class whose times repeat, sub-pool by sub-pool.
//
// A CycleTrace lists what a cycle allocates and frees, and a SubPoolMachine replays one sub-pool.
// SubPoolReplay runs the sub-pools of a class side by side. A sub-pool that returns to an earlier
// state rests while the others go on. A single sub-pool cannot tell when all tensors together reach
// a new peak. The bytes of tensors repeat in every cycle; only the slack (the bytes by which blocks
// are larger than their requests) can differ. The replay therefore notes the slack at the events
// where a peak is possible. The allocator itself replays a cycle that may reach a peak, and any
// cycle that needs the driver (memory_only.cpp).
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
  // The trace begins with cycle `from`. `length`: duration of a cycle. `cut`: when the CPU reaches
  // the begin of a cycle, relative to that begin. Both are in ps.
  SubPoolReplay(CycleTrace trace, std::int64_t from, std::int64_t length, std::int64_t cut);

  // The first cycle at which it can take over.
  std::int64_t first() const { return from_ + trace_.cycles; }
  // The same cycle occurs again later in the step: the replay may take over from `cycle` on.
  void start_from(std::int64_t cycle);
  // Takes over from the allocator at the begin of cycle `cycle`, at time `begin`. False: the state
  // of the allocator does not allow it; nothing changes.
  bool enter(RankState& r, std::int64_t cycle, Time begin);
  // Whether it replays now: between enter() and leave().
  bool on() const { return !sub_pools_.empty(); }
  std::int64_t done() const override { return done_; }

  Reached advance(std::int64_t end) override;
  void keep() override;
  void put_back() override;

  // Writes the memory at the begin of cycle done() back into `r`. `live`: the live frames at that
  // time.
  void leave(RankState& r, Time begin, std::span<const std::uint32_t> live);
  // Ends without writing back.
  void drop() { sub_pools_.clear(); }

 private:
  static constexpr std::int64_t first_slack_room = std::int64_t{64} << 20;

  // A sub-pool that is being replayed.
  struct Own {
    int stream = 0;
    bool small = false;
    std::vector<allocator::NodeId> segments;  // their first blocks
    std::optional<allocator::SubPoolMachine> machine;
    std::vector<allocator::SubPoolMachine::Slack> notes;  // since entered_

    // The slack at note k of a cycle.
    allocator::SubPoolMachine::Slack noted(std::int64_t cycle, std::int64_t entered, int k) const;
  };
  // A sub-pool's stream, and whether it belongs to the small pool.
  using Name = std::pair<int, bool>;
  // Bytes in all sub-pools at an allocation, without slack.
  struct Height {
    std::size_t event = 0;
    std::int64_t allocated = 0, active = 0;
  };
  // When the streams release a freed tensor: before event `event` of a cycle (or after the last
  // one), `cycles` cycles after its free.
  struct Release {
    std::size_t event = 0;
    int cycles = 0;
  };
  // A freed tensor that still waits for streams between two cycles.
  struct Waiting {
    std::int32_t tensor = 0;
    int age = 0;        // cycles since its allocation
    int freed_ago = 0;  // cycles since its free
  };

  // A block that was allocated before the first cycle and is never freed.
  struct Permanent {
    std::uint32_t slot = 0;
    program::Category category{};
    program::Streams recorded = 0;
    std::int64_t requested = 0;
    int sub_pool = 0;
    allocator::NodeId node = -1;
  };
  // The sub-pool and the node of a block.
  struct BlockLocation {
    int sub_pool = -1;
    allocator::NodeId node = -1;
  };

  // The sub-pools for which codes were written, and the events at which the codes note the slack.
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
  // The sub-pools and their blocks in the allocator.
  struct Found;
  bool find_sub_pools(const RankState& r, Found& found) const;
  bool find_waiting(const RankState& r, Time begin, Found& found) const;
  void find_critical(const RankState& r, const Found& found);
  void write_codes(Found& found);
  // The machines that take over, and where their blocks are.
  struct Filled;
  bool fill_sub_pools(const Found& found, std::int64_t cycle, std::size_t ids,
                      Filled& filled) const;
  bool hold_tensors(const RankState& r, std::int64_t cycle, const Found& found, Filled& filled);
  // Where the block of a tensor is that was allocated `age` cycles ago.
  BlockLocation place_of(std::int32_t tensor, int age) const;
  template <class T>
  using ByNode = std::vector<std::vector<T>>;
  ByNode<std::int64_t> requested_sizes() const;
  ByNode<std::size_t> write_segments(RankMemory::Layout& layout) const;
  bool slack_outgrown() const;
  std::int64_t first_peak(std::int64_t from, std::int64_t to) const;

  // What the trace says about every cycle. It never changes.
  struct CycleFacts {
    std::vector<std::int64_t> bytes;    // by tensor, rounded
    std::vector<std::size_t> freed_at;  // events, by tensor
    std::vector<std::size_t> places;    // allocations, in order
    std::vector<Release> releases;      // by tensor
    std::vector<std::size_t> released;  // tensors that wait for streams, by Release::event
    std::vector<Waiting> waits;         // between two cycles, in the order they were freed
    std::vector<Name> names;            // of the sub-pools of tensors, each once
    std::vector<Height> heights;        // above the bytes between two cycles
    Height highest;                     // the most of each
    bool repeats = false;               // a cycle ends with the tensors that it began with
    std::int64_t slack_in_groups = 0;
  };
  // The machine code of the sub-pools of the last take-over.
  struct Codes {
    CodesFor made_for;
    std::vector<std::pair<int, int>> home;  // by tensor: its sub-pool, its number there
    std::vector<std::shared_ptr<const allocator::SubPoolCode>> of;  // by sub-pool
  };
  // Limits that the memory of all sub-pools together must not exceed.
  struct Limits {
    std::vector<Height> critical;  // where a peak may be reached
    std::int64_t peak_allocated = 0, peak_active = 0;
    // slack_most: limit of the slack at events without a note. Groups that the machines skip
    // (sub_pool_code.h) do not count. slack_room: its margin over the slack at the take-over.
    std::int64_t slack_most = 0, slack_room = first_slack_room;
  };

  CycleTrace trace_;
  std::int64_t from_ = 0, length_ = 0, cut_ = 0;
  CycleFacts facts_;
  Codes codes_;
  Limits limits_;
  std::vector<Own> sub_pools_;
  std::int64_t entered_ = 0, done_ = 0;

  // The state for put_back(), only of sub-pools that do not rest. Retained states reuse their
  // memory.
  struct Retained {
    std::vector<std::optional<allocator::SubPoolMachine>> machines;
    std::vector<std::size_t> notes;
    std::int64_t done = 0;
  };
  Retained kept_;
  std::vector<Permanent> permanent_;
};

}  // namespace sim::engine
