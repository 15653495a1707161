// dataflow_engine.h — the class behind dataflow.h: execution (dataflow.cpp), cuts and what is
// skipped between them (dataflow_cuts.cpp), cycles that are known (dataflow_known.cpp) and how
// memory goes on in them (dataflow_memory_only.cpp, dataflow_alone.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/in_parallel.h"
#include "sim/engine/fast/dataflow_rank.h"
#include "sim/engine/steady/growth.h"
#include "sim/engine/steady/memory_code.h"

namespace sim::engine {

// A digest of what a clock log holds: allocations (0), and frees (1 + the streams that the tensor was
// recorded on).
constexpr std::uint64_t shape_with(std::uint64_t shape, std::uint64_t next) {
  return (shape ^ next) * 0x9e3779b97f4a7c15 + 1;
}

constexpr std::size_t at(program::Stream s) {
  return static_cast<std::size_t>(s);
}

// One direction between two classes: the n-th send meets the n-th receive.
struct Channel {
  std::vector<Time> sends, receives;  // posts that a side may still ask for
  std::int64_t base = 0;              // number of the first of them
  std::int64_t sends_posted = 0, receives_posted = 0;
  std::int64_t sends_done = 0, receives_done = 0;  // whose exchanges are complete

  // Whether the n-th send (or receive) has its partner's post.
  bool met(bool send, std::int64_t n) const {
    return n - base < static_cast<std::int64_t>((send ? receives : sends).size());
  }
  // That post. REQUIRES: met(send, n).
  Time partner(bool send, std::int64_t n) const {
    return (send ? receives : sends)[static_cast<std::size_t>(n - base)];
  }
  void prune() {
    const std::int64_t gone = std::min(sends_done, receives_done) - base;
    if (gone < 64) return;
    sends.erase(sends.begin(), sends.begin() + gone);
    receives.erase(receives.begin(), receives.begin() + gone);
    base += gone;
  }
};

// Rank classes of one group that meet in its collectives, in order.
struct Meetings {
  std::vector<int> members;
  struct Meeting {
    int posted = 0, left = 0;
    Time latest{};
  };
  std::deque<Meeting> open;
  std::int64_t first = 0;
};

class SubPoolReplay;

class Dataflow {
 public:
  Dataflow(const program::Job& job, const Times& times, const Memory& memory,
           const Options& options);

  RunReport run();
  // The last step alone, with no tensor placed (dataflow.h: least_step); `all_steps`: all of them,
  // for ranks that do not meet at the end of a step.
  void leave_memory_out(bool all_steps = false) {
    memory_matters_ = false;
    all_steps_ = all_steps;
    leave_out_tensors();
  }

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
  using Seen = std::deque<std::pair<std::size_t, Snapshot>>;
  // Cycles that follow one another from cut `base` on.
  struct Stretch {
    std::size_t base = 0, cycle = 0;  // cuts
    Time begin{};
    Duration length{};   // of a cycle
    bool alone = false;  // classes may run alone
    Time at(std::int64_t n) const { return begin + n * length; }
  };
  struct MemoryOnly;
  // A block without what places and frees tensors, whose CPU time is added to what is before it.
  struct TimeCode {
    struct Instruction {
      program::Instruction instruction;
      Duration behind{};  // CPU time of what was left out behind it
    };
    std::vector<Instruction> code;  // the first stands for the begin of the block and does nothing
  };
  // A cycle that was run with a clock log, each class without driver calls: where times are as at its
  // begin, it comes again.
  struct KnownCycle {
    std::vector<std::int64_t> timing;  // at its begin and end
    Duration length{};
    std::size_t cut = 0, cycle = 0;
    // Of each class: what its accounts gain, what decides its times in the end, what it learns from
    // others, in order of communicators.
    std::vector<Accounts> gained;
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::vector<Met>> met;
    // What it does to the memory of each class, in sub-pools; none: not traced yet.
    std::vector<std::shared_ptr<SubPoolReplay>> sub_pools;
  };

  // A cycle of which it may not be known yet what all classes do in it.
  struct ClockLogs {
    KnownCycle known;
    std::vector<std::optional<std::vector<std::int64_t>>> clock_logs;  // by class
  };

  void setup_meetings();
  void play(int step);
  void end_step(int step, RunReport& report);
  void drive();
  bool advance(int c);
  bool advance_in_time(int c);
  void leave_out_tensors();
  bool execute(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
               std::uint32_t frame_base, std::uint32_t layer_base);
  bool left_out(RankState& r, const MemoryCode& memory) const;
  bool collective(int c, RankState& r, const program::Instruction& i);
  bool exchange(int c, RankState& r, const program::Instruction& i);
  void kernel(int c, RankState& r, const program::Instruction& i);
  void wait(RankState& r, const program::Instruction& i);
  // The CPU may issue `entries` more launches; they started at `start`.
  void admit(RankState& r, program::Stream stream, std::int64_t entries) const;
  void launched(RankState& r, program::Stream stream, std::int64_t entries, Time start) const;
  // Those of the messages of an exchange, in their order.
  const std::vector<Channel*>& channels_of(int c, std::uint32_t exchange);
  bool issue(int c, RankState& r, const program::Instruction& i, program::Stream q, Duration launch,
             Pending pending);
  bool join(int c, RankState& r, const program::Instruction& i, program::Stream q);
  bool meet_later(int c, RankState& r, const program::Instruction& i, int group);
  void post(int c, RankState& r, Pending& pending);
  void post_messages(int c, const RankState& r, const Pending& pending);
  void come(Meetings& m, std::int64_t turn, Time when);
  static std::optional<Time> leave(Meetings& m, std::int64_t turn);
  static void note_met(RankState& r, program::Stream communicator, Time post, const Ends& ends);
  bool met(int c, RankState& r, const Pending& pending, Ends& ends);
  bool complete(int c, RankState& r, Pending& pending);
  void tell(int c, const RankState& r, const Pending& pending, const Ends& ends) const;
  bool event_known(int c, RankState& r, std::uint16_t event);
  bool complete_all(int c, RankState& r, program::Streams streams);
  bool settle(int c, RankState& r);
  bool answer();
  bool let_one_allocate();
  bool free(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
            std::uint32_t slot);
  void work_on_host(RankState& r, const program::Instruction& i);
  bool may_allocate(int c, RankState& r, const program::Instruction& i);
  bool allocate(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
                std::uint32_t slot);
  void lift(RankState& r, program::Stream stream, Time until, Account account);
  Account why(const RankState& r, Time start, Account otherwise) const;
  Channel& channel(int from, int to, std::uint8_t number) {
    return channels_[{from * static_cast<int>(ranks_.size()) + to, number}];
  }
  bool all_stopped() const;

  bool go_on_where_needed();
  bool stop_at(std::size_t cut);
  std::int64_t cycles_left(std::size_t cut, std::size_t cycle) const;
  Snapshot snapshot(bool with_memory) const;
  void save_memory(Snapshot& s) const;
  void save(const RankState& r, Time origin, std::vector<std::int64_t>& out) const;
  std::size_t skip(const Snapshot& before, const Snapshot& now, std::size_t from, std::size_t cut);
  void repeat_retries(const Snapshot& before, const Snapshot& now, std::int64_t times);
  std::size_t clock_log_cycles(const Snapshot& before, const Snapshot& now, std::size_t from,
                               std::size_t cut, bool logged);
  bool add_tapes(ClockLogs& found, const Snapshot& begin, const Snapshot& end, std::size_t cut);
  bool comes_again(int c, std::size_t cut, std::size_t cycle) const;
  bool run_with_clock_log(Time origin, std::size_t to);
  bool known_at(const Snapshot& now, std::size_t cut) const;
  std::size_t memory_only(Time origin, std::size_t cut);
  static std::uint32_t pass_at(const RankState& r, const Stretch& stretch, std::int64_t cycle) {
    return r.program.cuts[stretch.base + static_cast<std::size_t>(cycle) * stretch.cycle] +
           r.beyond;
  }
  bool steady(const Stretch& stretch) const;
  std::int64_t replay_memory_only(const Stretch& stretch, std::int64_t most);
  void trace_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch, std::int64_t most);
  static std::int64_t end_of_stretch(std::span<const MemoryOnly> all, std::int64_t done,
                                     std::int64_t most);
  void enter_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch);
  void leave_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch);
  bool advance_memory(int c, MemoryOnly& memory_only, const Stretch& stretch, std::int64_t end);
  bool replay_memory(int c, MemoryOnly& memory_only, const Stretch& stretch, std::int64_t end);
  void look_for_recurrence(const RankState& r, MemoryOnly& memory_only, Time begin) const;
  void end_recurrence(int c, MemoryOnly& memory_only, const Stretch& stretch, std::int64_t end);
  bool decided(const GrowthStop& stop);
  bool replay_clock_log(int c, RankState& r, std::uint32_t end, Time origin);
  bool may_run_alone() const;
  std::optional<std::int64_t> run_alone(int c, const Stretch& stretch, std::int64_t from,
                                        std::int64_t most);
  enum class Alone { as_known, late, other };  // late: the CPU is not where it always was
  Alone cycle_alone(int c, const Stretch& stretch, std::int64_t cycle);
  bool gained_as_known(int c, const Accounts& before, std::int64_t cycles) const;
  static Accounts gained(const Snapshot& before, const Snapshot& now, std::size_t c);
  void move_on(std::size_t c, const Accounts& gained, Duration by, std::int64_t times);
  void shift_channels(Duration by);
  static void walk_frames(const RankState& r, std::uint32_t end, std::vector<std::uint32_t>& live);
  bool ran_out() const;
  bool surely_out() const;
  std::int64_t driver_calls() const;
  void observe(int c, const RankState& r, program::Stream stream, const program::Instruction& i,
               Time start, Time waited, Time end) const;

  const program::Job& job_;
  const Times& times_;
  const Memory& memory_;
  const Options& options_;
  Team team_{options_.threads};  // where classes' memory alone is replayed
  DataWaits data_waits_{times_.loader};
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::map<std::pair<int, std::uint8_t>, Channel> channels_;
  std::vector<std::vector<std::vector<Channel*>>> channels_of_;     // [class][exchange][message]
  std::vector<std::vector<std::vector<std::uint32_t>>> others_of_;  // whom they go to or come from
  std::vector<std::vector<int>> of_stage_;                          // classes
  std::vector<char> due_;  // by class: something that it may wait for has happened
  MemoryCodes memory_codes_;
  std::vector<std::vector<const MemoryCode*>> memory_code_;  // [class][block]
  std::vector<std::vector<TimeCode>> time_code_;             // the same, without memory
  std::optional<KnownCycle> known_;
  std::vector<RankTimes> before_memory_only_;  // by class, at the begin of the stretch
  bool ended_early_ = false;                   // out of memory: the rest is hypothetical
  bool memory_matters_ = true, all_steps_ = true;
  std::vector<std::int64_t> reserved_most_;  // by class, once memory was left before the end
  std::vector<std::int64_t> reserved_least_;
  std::vector<Meetings> meetings_;
  std::vector<std::array<int, program::stream_count>> meeting_of_;  // [class][stream], -1: alone
};

}  // namespace sim::engine
