// allocator_replay.h — replays the memory of a class whose times repeat with the allocator itself.
//
// It performs every allocation and free of a cycle at the time in the clock log of the known cycle.
// If the state of memory equals an earlier state, the class rests: the cycles in between repeat,
// and finish() adds up whole recurrences.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/rank/memory_code.h"
#include "sim/engine/steady/memory_replay.h"
#include "sim/engine/steady/stretch.h"

namespace sim::engine {

// Cycles of the first stretch. It is short because many classes need the driver immediately.
constexpr std::int64_t first_stretch = 2;

class AllocatorReplay final : public MemoryReplay {
 public:
  // `blocks`: what each block of the class does to memory.
  AllocatorReplay(RankState& r, std::span<const MemoryCode* const> blocks, const Stretch& stretch)
      : r_(r), blocks_(blocks), stretch_(stretch) {}

  // Stops after a driver call; done() then counts the cycles before it. It also stops when the
  // class comes to rest.
  Reached advance(std::int64_t end) override;
  void keep() override;
  void put_back() override;
  std::int64_t done() const override { return done_; }

  // The caller has put the state at the begin of cycle `done`.
  void start_at(std::int64_t done) { done_ = done; }
  bool has_kept() const { return kept_.has_value(); }
  void forget_kept() { kept_.reset(); }

  // Whether advance() looks for earlier states that recur.
  void search(bool on) { searches_ = on; }
  bool rests() const { return recurrence_ > 0; }
  // From here on every cycle is assumed to equal the one before.
  void rest() { recurrence_ = 1; }
  // The state after `end` cycles. REQUIRES: rests().
  void finish(std::int64_t end);

 private:
  // The state at the begin of the current stretch of cycles.
  struct Retained {
    RankMemory::Retained memory;
    Clock clock;
    Position at;
    std::vector<std::uint32_t> live;
    std::int64_t done = 0;
  };

  bool replay_cycle(std::uint32_t end, Time origin);
  void look_for_recurrence(Time begin);

  RankState& r_;
  std::span<const MemoryCode* const> blocks_;
  const Stretch& stretch_;
  std::int64_t done_ = 0;
  bool searches_ = true;
  std::int64_t recurrence_ = 0;  // above 0: the state after done_ comes back that many cycles later
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> seen_;  // cycle, state
  std::optional<Retained> kept_;
};

}  // namespace sim::engine
