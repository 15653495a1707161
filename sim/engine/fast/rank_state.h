// rank_state.h — the state of one rank class in the fast engine.
//
// The executor changes it while it runs operations. Between two runs, SteadyState compares it
// (save_times), shifts it by whole cycles (move_on), and replays its memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/engine/rank/hardware_queue.h"
#include "sim/engine/rank/job_view.h"
#include "sim/engine/rank/rank_memory.h"
#include "sim/engine/rank/timeline.h"

namespace sim::engine {

// The CPU clock of a rank and the known ends of its streams.
struct Clock {
  Time cpu{};
  std::array<Time, program::stream_count> tail{};
  // The number of pending operations so far. `open`: by stream, the number of its last incomplete
  // one, counted from 1; 0: none.
  std::int64_t exchanges = 0;
  std::array<std::int64_t, program::stream_count> open{};

  Time idle() const { return *std::max_element(tail.begin(), tail.end()); }
};

// A driver whose event tickets are times in picoseconds. If the time is unknown, the ticket is
// `later` plus the number of the exchange that decides it.
class ClockDriver final : public TimedDriver {
 public:
  static constexpr std::int64_t later = std::int64_t{1} << 61;

  ClockDriver(Clock& clock, Bytes capacity, DriverCosts costs)
      : TimedDriver(capacity, costs), clock_(clock) {}

  allocator::Event record_event(int stream) override {
    const auto s = static_cast<std::size_t>(stream);
    if (clock_.open[s] == 0) return {stream, clock_.tail[s].ps};
    ++outstanding_;
    return {stream, later + clock_.open[s]};
  }
  bool event_reached(const allocator::Event& event) override {
    return event.ticket <= clock_.cpu.ps;
  }
  void wait(const allocator::Event& event) override {
    const Time end = event.ticket < later ? Time{event.ticket}
                                          : clock_.tail[static_cast<std::size_t>(event.stream)];
    if (event.ticket >= later) --outstanding_;
    hold_until(end);
  }
  const std::int64_t* clock() const override { return &clock_.cpu.ps; }
  Time& cpu() override { return clock_.cpu; }
  Time idle() const override { return clock_.idle(); }
  std::int64_t relative(const allocator::Event& event, Time origin) const override {
    if (event.ticket >= later) return event.ticket - clock_.exchanges;
    return std::max(event.ticket, clock_.cpu.ps) - origin.ps;
  }

  // The number of events with unknown times.
  std::int64_t outstanding() const { return outstanding_; }
  void set_outstanding(std::int64_t count) { outstanding_ = count; }

 private:
  Clock& clock_;
  std::int64_t outstanding_ = 0;
};

// The end that a stream waits for when it waits for an event.
struct EventEnd {
  Time when{};
  Duration transfer{};  // the part of the wait for the transfer itself
  Account account = Account::other;
  Account waiting = Account::other;  // the account of the rest
  // A collective: when the rank arrived. Before, its queue was busy with other communication.
  Time post{};
};

// An issued exchange, or an issued collective across classes. It is posted when the earlier work of
// its queue is done. It is complete when every message has its partner, or all classes have
// arrived.
struct Pending {
  std::uint32_t exchange = 0;  // for a collective: its transfer
  std::int64_t number = 0;     // Clock::exchanges
  program::Stream communicator{}, joined{};
  std::uint16_t event = 0;
  bool joins = false, posted = false;
  std::int64_t entries = 0;  // of its launch queue; 0: a CUDA graph launches it
  Time post{};  // at least the time of issue; the queue may delay it until it is posted
  Account account = Account::pp_transfer, waiting = Account::pp_imbalance;
  std::vector<std::int64_t> numbers;  // by message: the number of earlier messages on its channel
  // Collectives only: the index of the group (or -1), the number in the group, and the duration.
  int meeting = -1;
  std::int64_t turn = 0;
  Duration duration{};
  std::string_view label;
  ProgramLocation place;  // for observers
};

// Times of a completed operation: when its last peer arrived, and when it ended. `longest` is its
// longest transfer.
struct Ends {
  Time met{}, end{};
  Duration longest{};

  friend bool operator==(const Ends&, const Ends&) = default;
};

// A time that a rank learns from other classes in a known cycle, for an operation that it posted on
// a communicator. Relative to the begin of the cycle.
struct Met {
  program::Stream communicator{};
  Time post{};
  Ends ends;

  friend bool operator==(const Met&, const Met&) = default;
};

// The answers of other classes while a class runs a known cycle alone.
class KnownAnswers {
 public:
  KnownAnswers(std::span<const Met> met, Time origin) : met_(met), origin_(origin) {}
  // The next answer on a communicator. False: there is none, or not for an operation posted at this
  // time.
  bool next(program::Stream communicator, Time post, Ends& ends);
  // Whether all answers were used, and each matched its operation.
  bool over() const { return !missed_ && used_ == met_.size(); }

 private:
  Time at(Time t) const { return t + Duration{origin_.ps}; }

  std::span<const Met> met_;
  Time origin_;
  std::array<std::size_t, program::stream_count> next_{};  // next answer, by communicator
  std::size_t used_ = 0;
  bool missed_ = false;
};

// Everything that decides the times of a class, except its memory.
struct RankTimes {
  explicit RankTimes(const program::Program& program) : events(program.events) {}
  HardwareQueue& queue_of(program::Stream stream) {
    return queues[queues.size() == 1 ? 0 : static_cast<std::size_t>(stream)];
  }

  Clock clock;
  std::array<Time, resource_count> free{};  // when each resource has finished the issued work
  Time queue{};                             // when the last launch started (single hardware queue)
  Account queue_account = Account::host;
  std::vector<HardwareQueue> queues;  // one, or by stream
  std::vector<EventEnd> events;
  Timeline timeline;
  std::vector<Pending> pending;
  std::array<std::int64_t, program::stream_count> meetings{};  // collectives met so far
};

// A recording of one cycle of a class: what its memory sees of time, and what it learns from other
// classes. The executor writes it while `recording` is true; times count from `origin`.
struct ClockLog {
  // In ps: the CPU clock at each allocation and free; after a free, the ends of the streams that
  // the tensor was recorded on.
  std::vector<std::int64_t> times;
  // Unknown entries of `times`: the index, and the exchange that decides the time.
  std::vector<std::pair<std::size_t, std::int64_t>> later;
  std::uint64_t shape = 0;  // digest of the order of allocations, frees and recorded streams
  std::vector<Met> met;
  bool recording = false;
  Time origin{};
  std::int64_t calls_before = 0;  // driver calls of the class when the recording began
};

// The reason why a class cannot execute its next instruction yet.
struct Stall {
  bool posted = false;  // the instruction has begun and waits for other classes
  bool idles = false;   // an allocation that waits until the device is idle
  bool asks = false;    // an allocation that must know whether a message still holds memory
  Time sure_until{};    // no message with an unknown end ends before this time
  Time post{};          // when the instruction was posted
};

struct RankState : RankTimes {
  RankState(const program::Program& its_program, const ClassTimes& its_times, Bytes capacity,
            DriverCosts costs, const allocator::Options& options)
      : RankTimes(its_program),
        program(its_program),
        times(its_times),
        driver(clock, capacity, costs),
        memory(its_program, driver, options) {}

  const program::Program& program;
  const ClassTimes& times;
  ClockDriver driver;
  RankMemory memory;

  ClockLog log;

  // Place in the program.
  Position at;
  std::uint32_t stop = 0;    // pass before which to stop
  std::uint32_t beyond = 0;  // at a cut: passes that others needed after it
  Stall stall;

  // Frames in use, oldest first.
  std::vector<std::uint32_t> live;

  // Whether the current group of transients is left out (memory_code.h).
  bool leave_out = false;

  // Set while it runs alone: other classes are neither asked nor told.
  KnownAnswers* alone = nullptr;

  std::int64_t executed = 0;
  Accounts accounts_at_step{};

  Time end_of_work() const { return std::max(clock.cpu, timeline.front()); }
};

// Appends to `out` everything that decides the times of a class from now on, relative to `origin`.
// Times before the CPU clock decide nothing any more, so they are saved as the clock.
void save_times(const RankState& r, Time origin, std::vector<std::int64_t>& out);

// Shifts the times of a class by `times` cycles, `by` in total; its accounts gain `gained` in each.
void move_on(RankTimes& r, const Accounts& gained, Duration by, std::int64_t times);

// Updates `live` (the frames in use, oldest first) for the passes from the place of `r` up to
// `end`.
void walk_frames(const RankState& r, std::uint32_t end, std::vector<std::uint32_t>& live);

}  // namespace sim::engine
