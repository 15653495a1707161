// steady_state.h — decides which cycles of a step repeat, proves it, and adds them up.
//
// It runs the steps of a job on an Executor, stopping at cuts (program.h). Two shortcuts, both
// exact:
//
//   cuts   The whole state at a cut (clocks, streams, messages on the way, allocator, live
//   tensors),
//          taken relative to a common origin and with frames numbered by age, equals the state at
//          an earlier cut. Then the passes in between repeat, and the whole cycles that are left
//          are added up instead of run.
//   steps  A step starts in the state in which the step before it started: it is that step again.
//
// Times settle within a few microbatches. The layout of the allocator may take hundreds. So where
// only times repeat, memory alone is replayed (memory_only.cpp). Any state that is compared is
// compared whole: nothing is skipped on a guess. The reference engine (reference/) is the check.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/in_parallel.h"
#include "sim/engine/fast/executor.h"
#include "sim/engine/steady/growth.h"
#include "sim/engine/steady/stretch.h"

namespace sim::engine {

class SubPoolReplay;

class SteadyState {
 public:
  SteadyState(Executor& executor, const program::Job& job, const Memory& memory,
              const Options& options)
      : executor_(executor), job_(job), memory_(memory), options_(options) {}

  // All steps that were asked for. `last_alone`: only the last one, for replays without tensors.
  RunReport run(bool last_alone);

 private:
  // A state at a cut, relative to `origin`. What decides times and what decides memory are apart:
  // memory touches times only through driver calls.
  struct Snapshot {
    std::vector<std::int64_t> timing, memory;
    std::vector<std::int64_t> outline;  // of the allocators
    std::vector<Accounts> accounts;
    std::vector<std::int64_t> retries;  // of the allocators, so far
    Time origin;
    std::int64_t driver_calls = 0;
  };
  using Seen = std::deque<std::pair<std::size_t, Snapshot>>;  // cut, state
  // A cycle that was run with a clock log, each class without driver calls. Where times are as at
  // its begin, it comes again.
  struct KnownCycle {
    std::vector<std::int64_t> timing;  // at its begin and end
    Duration length{};
    std::size_t cut = 0, cycle = 0;
    // By class: what its accounts gain, what decides its times in the end, what it learns from
    // others in order of communicators.
    std::vector<Accounts> gained;
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::vector<Met>> met;
    // By class: the cycle in sub-pools; none: not traced yet.
    std::vector<std::shared_ptr<SubPoolReplay>> sub_pools;
  };
  // A cycle whose clock logs are not known of all classes yet.
  struct ClockLogs {
    KnownCycle known;
    std::vector<std::optional<std::vector<std::int64_t>>> clock_logs;  // by class
  };
  class CyclesLogged;
  struct Cuts;
  struct MemoryOnly;
  // What each class reserves at least and at most, once memory was left before the end.
  struct ReservedBounds {
    std::vector<std::int64_t> least, most;
  };

  void play(int step);
  void begin_step(int step);
  bool stop_at_next(Cuts& cuts);
  std::size_t replay_known(Cuts& cuts, const Snapshot& now);
  bool look(Cuts& cuts);
  void end_step(int step, RunReport& report);
  bool surely_out() const;

  Snapshot snapshot(bool with_memory) const;
  void save_memory(Snapshot& s) const;
  std::int64_t cycles_left(std::size_t cut, std::size_t cycle) const;
  std::size_t skip(const Snapshot& before, const Snapshot& now, std::size_t from, std::size_t cut);
  void repeat_retries(const Snapshot& before, const Snapshot& now, std::int64_t times);
  static Accounts gained(const Snapshot& before, const Snapshot& now, std::size_t c);

  // known_cycle.cpp
  std::size_t clock_log_cycles(const Snapshot& before, const Snapshot& now, std::size_t from,
                               std::size_t cut, bool logged);
  bool add_logs(ClockLogs& found, const Snapshot& begin, const Snapshot& end, std::size_t cut);
  bool comes_again(int c, std::size_t cut, std::size_t cycle) const;
  bool run_with_clock_log(Time origin, std::size_t to);
  bool known_at(const Snapshot& now, std::size_t cut) const;

  // memory_only.cpp
  std::size_t memory_only(Time origin, std::size_t cut);
  bool steady(const Stretch& stretch) const;
  std::int64_t replay_memory_only(const Stretch& stretch, std::int64_t most);
  void trace_sub_pools(MemoryOnly& memory_only, const Stretch& stretch, std::int64_t most);
  static std::int64_t end_of_stretch(std::span<const MemoryOnly> all, std::int64_t done,
                                     std::int64_t most);
  void enter_sub_pools(MemoryOnly& memory_only, const Stretch& stretch);
  void leave_sub_pools(MemoryOnly& memory_only, const Stretch& stretch);
  bool advance_memory(MemoryOnly& memory_only, const Stretch& stretch, std::int64_t end);
  bool decided(const GrowthStop& stop);

  // run_alone.cpp
  bool may_run_alone() const;
  std::optional<std::int64_t> run_alone(int c, const Stretch& stretch, std::int64_t from,
                                        std::int64_t most);
  enum class Alone { as_known, late, other };  // late: the CPU is not where it always was
  Alone cycle_alone(int c, const Stretch& stretch, std::int64_t cycle);
  bool gained_as_known(int c, const Accounts& before, std::int64_t cycles) const;

  Executor& executor_;
  const program::Job& job_;
  const Memory& memory_;
  const Options& options_;
  Team team_{options_.threads};  // for classes whose memory alone is replayed
  std::optional<KnownCycle> known_;
  std::vector<RankTimes> before_memory_only_;  // by class, at the begin of the stretch
  ReservedBounds bounds_;
};

}  // namespace sim::engine
