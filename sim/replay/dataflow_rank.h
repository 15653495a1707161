// dataflow_rank.h — the state of one rank class in the fast engine. See dataflow.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/replay/job_view.h"
#include "sim/replay/rank_memory.h"
#include "sim/replay/timeline.h"

namespace sim::replay {

constexpr std::size_t event_count = 64;

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
  std::uint8_t event = 0;
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
        memory(its_program, clock, capacity, costs, options) {}

  const workload::Program& program;
  const ClassTimes& times;

  Clock clock;
  Time sms{};    // when the SMs have finished the kernels issued so far
  Time queue{};  // when the last launch started (single hardware queue)
  Account queue_account = Account::host;
  std::array<EventEnd, event_count> events{};
  Timeline timeline;
  RankMemory memory;

  // Place in the program.
  Position at;
  std::uint32_t stop = 0;  // pass before which to stop
  bool posted = false;     // the instruction at `at` has posted and waits for its partners
  Time post{};             // when it did
  std::vector<PendingExchange> pending;
  std::array<std::int64_t, workload::stream_count> meetings{};  // collectives met so far

  // Frames in use, oldest first.
  std::vector<std::uint32_t> live;

  std::int64_t executed = 0;
  Accounts accounts_at_step{};
};

}  // namespace sim::replay
