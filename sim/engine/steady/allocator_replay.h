// allocator_replay.h — memory of a class whose times repeat, replayed by the allocator itself.
//
// Every allocation and free of a cycle is done at the time that the clock log of the known cycle
// gives it. When the state of memory equals one that was seen before, the class rests: what lies
// between the two comes again, and finish() adds up whole recurrences.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/rank/memory_code.h"
#include "sim/engine/steady/memory_replay.h"
#include "sim/engine/steady/stretch.h"

namespace sim::engine {

// Cycles of the first stretch: many a class needs the driver at once.
constexpr std::int64_t first_stretch = 2;

class AllocatorReplay final : public MemoryReplay {
 public:
  // `blocks`: what each block of the class does to memory.
  AllocatorReplay(RankState& r, std::span<const MemoryCode* const> blocks, const Stretch& stretch)
      : r_(r), blocks_(blocks), stretch_(stretch) {}

  // Stops after a driver call, with done() the cycles before it; also when it comes to rest.
  Reached advance(std::int64_t end) override;
  void keep() override;
  void put_back() override;
  std::int64_t done() const override { return done_; }

  // The state was put at the begin of cycle `done` by somebody else.
  void start_at(std::int64_t done) { done_ = done; }
  bool has_kept() const { return kept_.has_value(); }
  void forget_kept() { kept_.reset(); }

  // Whether advance() looks for states that were there before.
  void search(bool on) { searches_ = on; }
  bool rests() const { return recurrence_ > 0; }
  // From here on every cycle is taken to be like any other.
  void rest() { recurrence_ = 1; }
  // The state after `end` cycles. REQUIRES: rests().
  void finish(std::int64_t end);

 private:
  // The state at the begin of the stretch of cycles at hand.
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
