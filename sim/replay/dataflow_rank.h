// dataflow_rank.h — the state of one rank class in the fast engine. See dataflow.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/replay/job_view.h"
#include "sim/replay/rank_memory.h"
#include "sim/replay/timeline.h"

namespace sim::replay {

// The CPU clock of a rank and the ends of its streams, as far as they are known.
struct Clock {
  Time cpu{};
  std::array<Time, workload::stream_count> tail{};

  Time idle() const { return *std::max_element(tail.begin(), tail.end()); }
};

// An event's ticket is the time at which it is reached, in picoseconds.
class ClockDriver final : public TimedDriver {
 public:
  ClockDriver(Clock& clock, Bytes capacity, DriverCosts costs)
      : TimedDriver(capacity, costs), clock_(clock) {}

  memory::Event record_event(int stream) override {
    return {stream, clock_.tail[static_cast<std::size_t>(stream)].ps};
  }
  bool event_reached(const memory::Event& event) override { return event.ticket <= clock_.cpu.ps; }
  void wait(const memory::Event& event) override {
    clock_.cpu = std::max(clock_.cpu, Time{event.ticket});
  }
  const std::int64_t* clock() const override { return &clock_.cpu.ps; }
  Time& cpu() override { return clock_.cpu; }
  Time idle() const override { return clock_.idle(); }

 private:
  Clock& clock_;
};

// What a stream waits for when it waits for an event.
struct EventEnd {
  Time when{};
  Duration transfer{};  // of which the wire took
  Account account = Account::other;
  Account waiting = Account::other;  // whose the rest is
};

// An exchange that was issued; complete when every message has met its partner.
struct PendingExchange {
  std::uint32_t exchange = 0;
  workload::Stream communicator{};
  std::uint16_t event = 0;
  bool joins = false;
  Time post{};
  Account waiting = Account::pp_imbalance;
  std::vector<std::int64_t> numbers;  // per message: how many came before it on its channel
  Place place;                        // for observers
};

struct RankState {
  RankState(const workload::Program& its_program, const ClassTimes& its_times, Bytes capacity,
            DriverCosts costs, const memory::Options& options)
      : program(its_program),
        times(its_times),
        driver(clock, capacity, costs),
        memory(its_program, driver, options) {}

  const workload::Program& program;
  const ClassTimes& times;

  Clock clock;
  Time sms{};    // when the SMs have finished the kernels issued so far
  Time queue{};  // when the last launch started (single hardware queue)
  Account queue_account = Account::host;
  std::vector<Time> launched;  // when the latest launches started, a ring of Times::launch_queue
  std::size_t launches = 0;    // place of the next one in the ring
  std::vector<EventEnd> events = std::vector<EventEnd>(program.events);
  Timeline timeline;
  ClockDriver driver;
  RankMemory memory;

  // What memory sees of time in a period, relative to its begin: the CPU clock at each allocation
  // and free, then the ends of the streams that a freed tensor was recorded on.
  std::vector<std::int64_t> tape;
  bool taping = false;
  Time tape_origin{};

  // Place in the program.
  Position at;
  std::uint32_t stop = 0;  // pass before which to stop
  bool posted = false;     // the instruction at `at` has posted and waits for its partners
  Time post{};             // when it did
  std::vector<PendingExchange> pending;
  std::array<std::int64_t, workload::stream_count> meetings{};  // collectives met so far

  // Frames in use, oldest first.
  std::vector<std::uint32_t> live;

  // The group of transients at hand is left out (memory_code.h).
  bool leave_out = false;

  std::int64_t executed = 0;
  Accounts accounts_at_step{};
};

}  // namespace sim::replay
