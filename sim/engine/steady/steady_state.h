// steady_state.h — decides which cycles of a step repeat, proves it, and adds them up.
//
// It runs the steps of a job on an Executor, and stops at cuts (program.h). Both shortcuts are
// exact:
//
//   cuts   The whole state at a cut equals the state at an earlier cut: clocks, streams, messages
//          on the way, allocator, live tensors. Times are relative to a common origin, frames are
//          numbered by age. Then the passes in between repeat. The remaining whole cycles are added
//          up instead of run.
//   steps  A step that starts in the state in which the step before it started repeats that step.
//
// Times settle within a few microbatches, but the layout of the allocator may take hundreds. If
// only times repeat, memory alone is replayed (memory_only.cpp). States are always compared whole;
// nothing is skipped on a guess. Tests compare the result with the reference engine (reference/).
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
#include "sim/engine/rank/steadiness.h"
#include "sim/engine/steady/growth.h"
#include "sim/engine/steady/stretch.h"

namespace sim::engine {

class SubPoolReplay;

class SteadyState {
 public:
  SteadyState(Executor& executor, const program::Job& job, const Memory& memory,
              const Options& options)
      : executor_(executor), job_(job), memory_(memory), options_(options) {}

  // Runs all requested steps. `last_alone`: only the last one, for replays without tensors.
  RunReport run(bool last_alone);

 private:
  // The state at a cut, relative to `origin`. The state of times and the state of memory are
  // separate: memory affects times only through driver calls.
  struct Snapshot {
    std::vector<std::int64_t> timing, memory;
    std::vector<std::int64_t> outline;  // Allocator::save_outline of all classes
    std::vector<Accounts> accounts;
    std::vector<std::int64_t> retries;  // of the allocators, so far
    std::vector<Duration> delays;       // by driver calls, so far
    Time origin;
    std::int64_t driver_calls = 0;
  };
  using Seen = std::deque<std::pair<std::size_t, Snapshot>>;  // cut, state
  // A cycle whose clock log is known: no class called the driver in it. Whenever times equal those
  // at its begin, the cycle repeats.
  struct KnownCycle {
    std::vector<std::int64_t> timing;  // at its begin and end
    Duration length{};
    std::size_t cut = 0, cycle = 0;
    // By class: the gain of its accounts, the times at the end of the cycle, and the times it
    // learns from other classes, in order of communicators.
    std::vector<Accounts> gained;
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::vector<Met>> met;
    // By class: the cycle in sub-pools; null: not traced yet.
    std::vector<std::shared_ptr<SubPoolReplay>> sub_pools;
  };
  // A cycle for which the clock logs of some classes are still missing.
  struct ClockLogs {
    KnownCycle known;
    std::vector<std::optional<std::vector<std::int64_t>>> clock_logs;  // by class
  };
  class CyclesLogged;
  struct Cuts;
  struct MemoryOnly;
  // Bounds on the reserved memory of each class, once an exact replay of memory was given up.
  struct ReservedBounds {
    std::vector<std::int64_t> least, most;
  };

  void play(int step);
  void begin_step(int step);
  bool stop_at_next(Cuts& cuts);
  std::size_t replay_known(Cuts& cuts, const Snapshot& now);
  bool look(Cuts& cuts);
  void end_step(int step, RunReport& report);
  bool goes_on(int step) const;
  bool surely_out();
  std::optional<std::size_t> first_event() const;
  bool tensors_exceed_memory(std::size_t c) const;
  void say_tensors(std::size_t c, ClassReport& report) const;
  [[noreturn]] void end_waiting() const;
  void complete_rest();

  Snapshot snapshot(bool with_memory) const;
  void save_memory(Snapshot& s) const;
  std::int64_t cycles_left(std::size_t cut, std::size_t cycle) const;
  std::size_t skip(const Snapshot& before, const Snapshot& now, std::size_t from, std::size_t cut);
  void repeat_counts(const Snapshot& before, const Snapshot& now, std::int64_t times);
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
  bool rest_when_decided(std::span<MemoryOnly> all, const Stretch& stretch, std::int64_t done);
  // The cycle that all classes reached, and whether to continue with memory alone.
  struct Advanced {
    std::int64_t end = 0;
    bool more = false;
  };
  Advanced advance_all(std::span<MemoryOnly> all, const Stretch& stretch, std::int64_t end,
                       std::int64_t most);
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
  enum class Alone { as_known, late, other };  // late: it ends at other times than the known cycle
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
  // Whether the tensors of the class that ran out of memory first exceed it; unknown: not asked.
  std::optional<bool> exceeded_;
  bool hopeless_ = false;  // the replay ended because of it
  Steadiness steadiness_{stages_of(job_)};
};

}  // namespace sim::engine
