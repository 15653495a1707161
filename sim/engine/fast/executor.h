// executor.h — runs the operations of all rank classes against clocks. It does not know what
// repeats.
//
// SteadyState (steady/steady_state.h) calls it to run all classes up to a cut, or a step to its
// end. Between two such calls SteadyState may read and shift the state of the classes. Every time
// is a maximum of known times plus a duration. A class runs until it needs something that another
// class has not issued yet; then another class runs.
//
//   executor.cpp         kernels, collectives, the CPU, the order of classes
//   executor_peers.cpp   exchanges, and collectives across rank classes
//   executor_memory.cpp  allocations and frees
//   executor_times.cpp   the same program without its tensors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/fast/peers.h"
#include "sim/engine/fast/rank_state.h"
#include "sim/engine/rank/memory_code.h"

namespace sim::engine {

// Extends the digest of a clock log by one entry: an allocation (0), or a free (1 + the streams
// that the tensor was recorded on).
constexpr std::uint64_t shape_with(std::uint64_t shape, std::uint64_t next) {
  return (shape ^ next) * 0x9e3779b97f4a7c15 + 1;
}

constexpr std::size_t at(program::Stream s) {
  return static_cast<std::size_t>(s);
}

class Executor {
 public:
  Executor(const program::Job& job, const Times& times, const Memory& memory,
           const Options& options);

  // From now on no tensor is allocated: allocations and frees only take their CPU time.
  void leave_out_tensors();
  bool places_tensors() const { return places_tensors_; }
  // The rank's position in its program, also where it runs without its tensors (TimeCode).
  Position position(const RankState& r) const;

  std::vector<std::unique_ptr<RankState>>& ranks() { return ranks_; }
  const std::vector<std::unique_ptr<RankState>>& ranks() const { return ranks_; }
  Peers& peers() { return peers_; }
  const Peers& peers() const { return peers_; }
  // The effect of each block on memory, by class and block.
  const std::vector<std::vector<const MemoryCode*>>& memory_code() const { return memory_code_; }

  // Runs all classes until each has stopped (RankState::stop) or waits.
  void drive();
  // Runs all classes to a cut. A class continues beyond the cut if another class needs its messages
  // to reach the cut (in interleaved schedules). False: no consistent cut exists.
  bool run_to(std::size_t cut);
  // Runs one class until it stops or waits. Returns whether it executed anything.
  bool advance(int c);
  // Call it if no class can run. Of the classes whose allocation waits for an idle device, the one
  // with the earliest clock continues without the wait, as in the reference engine. False: none.
  bool let_one_allocate();
  // Completes outstanding operations on any of `streams`, in order of issue. False: some time is
  // unknown.
  bool complete_all(int c, RankState& r, program::Streams streams);

  bool all_stopped() const;
  bool ran_out() const;                         // some class ran out of memory
  bool reached_limit() const;                   // some class reached a limit of Options
  std::int64_t driver_calls() const;            // of all classes so far
  std::vector<Duration> driver_delays() const;  // by class, so far
  std::vector<std::int64_t> reserved() const;   // bytes of its allocator, by class
  // Out of memory: the rest of the step is skipped.
  bool ended_early() const { return ended_early_; }
  void end_early() { ended_early_ = true; }

 private:
  // A block without allocations and frees. Their CPU time is added to the instruction before them.
  struct TimeCode {
    struct Instruction {
      program::Instruction instruction;
      Duration behind{};  // CPU time of the removed instructions after this one
    };
    // The first entry represents the begin of the block and does nothing.
    std::vector<Instruction> code;
  };

  bool reached_limit(const RankState& r) const;
  bool advance_in_time(int c);
  bool execute(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
               std::uint32_t frame_base, std::uint32_t layer_base);
  bool left_out(RankState& r, const MemoryCode& memory) const;
  bool collective(int c, RankState& r, const program::Instruction& i);
  bool exchange(int c, RankState& r, const program::Instruction& i);
  void kernel(int c, RankState& r, const program::Instruction& i);
  void wait(RankState& r, const program::Instruction& i);
  // admit: the CPU may issue `entries` more launches. launched: they started at `start`.
  void admit(RankState& r, program::Stream stream, std::int64_t entries) const;
  void launched(RankState& r, program::Stream stream, std::int64_t entries, Time start) const;
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
  bool settle(int c, RankState& r);
  bool answer();
  bool free(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
            std::uint32_t slot);
  // CPU time of an allocation that finds a block.
  Duration allocation_time(const program::Instruction& i) const {
    return i.flags & program::graphed ? Duration{} : times_.allocation;
  }
  void wait_for_device(RankState& r);
  void work_on_host(RankState& r, const program::Instruction& i);
  bool may_allocate(int c, RankState& r, const program::Instruction& i);
  bool allocate(int c, RankState& r, const program::Instruction& i, const MemoryCode& memory,
                std::uint32_t slot);
  void lift(RankState& r, program::Stream stream, Time until, Account account);
  Account why(const RankState& r, Time start, Account otherwise) const;
  bool go_on_where_needed();
  void observe(int c, const RankState& r, program::Stream stream, const program::Instruction& i,
               Time start, Time waited, Time end) const;

  const program::Job& job_;
  const Times& times_;
  const Options& options_;
  DataWaits data_waits_{times_.loader};
  std::vector<std::unique_ptr<RankState>> ranks_;
  Peers peers_;
  std::vector<std::vector<int>> groups_;  // classes that exchange most, by stage
  std::vector<char> due_;                 // by class: something that it may wait for has happened
  MemoryCodes memory_codes_;
  std::vector<std::vector<const MemoryCode*>> memory_code_;  // [class][block]
  std::vector<std::vector<TimeCode>> time_code_;             // the same, without memory
  bool ended_early_ = false;
  bool places_tensors_ = true;
};

}  // namespace sim::engine
