// reference_engine.h — the class that implements the reference engine, and the state of one rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/base/event_queue.h"
#include "sim/cluster/network/shared_links.h"
#include "sim/engine/price/coupling.h"
#include "sim/engine/rank/job_view.h"
#include "sim/engine/rank/rank_memory.h"
#include "sim/engine/rank/timeline.h"

namespace sim::engine::reference {

using program::Instruction;
using program::Op;
using program::Stream;

constexpr std::size_t at(Stream s) {
  return static_cast<std::size_t>(s);
}
constexpr std::size_t streams = program::stream_count;
inline std::size_t resource(Stream queue) {
  return static_cast<std::size_t>(resource_of(queue));
}

// A point in the work of a stream: its first `count` entries are done.
struct Mark {
  std::size_t stream = 0;
  std::int64_t count = 0;
};

enum class EntryKind : std::uint8_t { kernel, collective, exchange, wait };

// One entry of a stream's queue.
struct Entry {
  EntryKind kind = EntryKind::kernel;
  bool running = false;
  std::uint8_t flags = 0;
  std::uint32_t index = 0;   // of the operation, transfer or exchange in the program
  std::int64_t launch = -1;  // number of the launch on this rank; -1: no launch
  std::int64_t kernel = -1;  // number of the kernel on its resource; -1: it needs no free resource
  Mark after;                // dependency: the issuing stream, or the event of a wait
  Time issued{};
  Account waiting = Account::other;  // account of the wait for peers
  std::uint16_t label = 0;
  ProgramLocation place;  // for observers
};

// The times and accounts of a finished entry, for the streams that wait for it. post: it was ready
// on this rank; met: all peers were ready.
struct Finished {
  Time post{}, met{}, end{};
  Account late = Account::other, waiting = Account::other, account = Account::other;
};

struct Rank;

// A driver whose events are marks of streams.
class MarkDriver final : public TimedDriver {
 public:
  MarkDriver(Rank& rank, Bytes capacity, DriverCosts costs)
      : TimedDriver(capacity, costs), rank_(rank) {}
  allocator::Event record_event(int stream) override;
  bool event_reached(const allocator::Event& event) override;
  void wait(const allocator::Event& event) override;
  Time& cpu() override;
  Time idle() const override;

  // Whether an allocation now would wait for the device. It tries on a copy of the allocator.
  bool would_wait(const allocator::Allocator& allocator, std::int64_t bytes, int stream);

 private:
  Rank& rank_;
  mutable bool waited_ = false;
};

// The state of one rank class: its CPU, streams, hardware queues and memory.
struct Rank {
  Rank(const program::Program& its_program, const ClassTimes& its_times, Bytes capacity,
       DriverCosts costs, const allocator::Options& options)
      : program(its_program),
        times(its_times),
        driver(*this, capacity, costs),
        memory(its_program, driver, options) {}

  const program::Program& program;
  const ClassTimes& times;

  // The entries of a hardware queue: of all issued launches, and of those that have started.
  struct Places {
    std::int64_t issued = 0, started = 0;
    std::deque<std::int64_t> of;  // entries of each launch that has not started
    std::int64_t wanted = 0;      // the CPU waits until `started` reaches it; 0: it does not wait
  };
  struct StreamState {
    std::deque<Entry> queue;
    std::int64_t issued = 0, done = 0;
    Time last_end{};
    std::vector<Finished> finished;  // by entry number
    Places places;                   // a single hardware queue uses those of the first stream
    std::int64_t meetings = 0;
  };
  std::array<StreamState, streams> stream;
  std::vector<Mark> events = std::vector<Mark>(program.events);
  // Launches of all streams, and the kernels among them.
  struct Launches {
    std::int64_t issued = 0, started = 0;
    Time last_start{};
    Account last_account = Account::host;
    struct Kernels {
      std::int64_t issued = 0, done = 0;
    };
    std::array<Kernels, resource_count> kernels;  // by resource
  };
  Launches launches;
  Time main_tail{};  // end of the compute stream so far, waits included
  Timeline timeline;

  Time cpu{};
  Position at;
  bool at_end = false;
  // The CPU waits for `until`.
  struct Wait {
    bool on = false;
    std::vector<Mark> until;
    bool for_memory = false;  // an allocation may need an idle device
  };
  Wait wait;

  MarkDriver driver;
  RankMemory memory;
  std::int64_t executed = 0;
  Accounts accounts{};

  Time end_of_work() const { return std::max(cpu, timeline.front()); }

  // The time at which a stream reached `mark`. REQUIRES: reached(mark).
  Time end_of(const Mark& mark) const {
    return mark.count == 0
               ? Time{}
               : stream[mark.stream].finished[static_cast<std::size_t>(mark.count) - 1].end;
  }
  bool reached(const Mark& mark) const { return stream[mark.stream].done >= mark.count; }
};

// An event of the agenda. `finish` ends an entry of a stream, `message` ends one side of a message,
// `cpu` completes an instruction of the CPU.
struct Event {
  enum Kind : std::uint8_t { finish, message, cpu } kind;
  std::int32_t rank;
  std::uint32_t stream;                   // finish
  std::int64_t number;                    // message: key into transfers in flight
  network::SharedLinks::Handle wire = 0;  // transfer on shared links; 0: none
};

// The engine. One object replays one job once.
class Reference {
 public:
  Reference(const program::Job& job, const Times& times, const Memory& memory,
            const Options& options);
  RunReport run();

 private:
  // The ranks that have arrived at a collective.
  struct Meeting {
    std::vector<std::pair<int, Entry*>> arrived;
  };
  // One side of a message that has been posted.
  struct Post {
    int rank;
    Stream stream;
    Duration duration;
    std::size_t kind = 0;  // of the transfer, on shared links
  };
  // One direction between two classes: unmatched posts, and the numbers of all posts so far.
  struct Channel {
    std::deque<Post> sends, receives;
    std::int64_t sent = 0, received = 0;
  };
  struct Transfer {
    Post a, b;
  };
  // A running exchange of one rank.
  struct Exchanging {
    int open = 0;  // messages that have not ended
    Time post{}, met{};
    Duration longest{};
    std::vector<MessageEnd> ends;  // for observers
  };

  void begin_step(Rank& r, int step);
  void play(int step);
  void end_step(Rank& r, Time end);
  void work();  // processes events until none is left
  bool let_one_allocate();
  void cpu_step(int c);
  void next_instruction(Rank& r);
  Duration cost(Rank& r, const Instruction& i) const;
  void handle(int c, Rank& r, const Instruction& i);
  std::uint32_t slot(const Rank& r, program::Space space, std::uint32_t index) const;
  void schedule_cpu(int c);
  void issue(int c, Rank& r, Stream stream, Entry entry);
  void try_start(int c);
  bool ready(const Rank& r, std::size_t s, const Entry& e) const;
  void communicate(int c, Rank& r, const Instruction& i, Entry e);
  void start(int c, Rank& r, std::size_t s, Entry& e);
  void start_kernel(int c, Rank& r, Stream stream, const Entry& e);
  void start_collective(int c, Rank& r, std::size_t s, Entry& e);
  void start_exchange(int c, Rank& r, std::size_t s, const Entry& e);
  void meet(Channel& channel);
  Rank::Places& places_of(Rank& r, Stream stream) const {
    return r.stream[times_.single_queue ? 0 : at(stream)].places;
  }
  void leave_launch_queue(int c, Rank& r, Stream stream);
  void finish(int c, std::size_t s);
  void put_on_wire(Event event, Duration alone, std::size_t kind,
                   network::SharedLinks::Handle& leader);
  bool off_the_wire(const Event& event);
  void reschedule();
  void settle_wait(Rank& r, std::size_t s, const Entry& e);
  Account why(const Rank& r, const Entry& e, Account otherwise) const;

  const program::Job& job_;
  const Times& times_;
  const Options& options_;
  EventQueue<Event> agenda_;
  std::vector<Duration> longest_;              // by step: the longest step of any rank
  std::vector<std::vector<Duration>> delays_;  // by step and rank: by driver calls, up to its end
  std::vector<std::vector<std::int64_t>> reserved_;  // by step and rank: bytes at its end
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<std::size_t, int>, std::map<std::int64_t, Meeting>> meetings_;
  std::map<std::pair<int, int>, Channel> channels_;
  std::map<std::pair<int, std::size_t>, Exchanging> exchanging_;
  std::map<std::int64_t, Transfer> in_flight_;
  std::int64_t transfers_ = 0;
  std::unique_ptr<network::SharedLinks> links_;                // coupled networks only
  std::map<network::SharedLinks::Handle, Event> on_the_wire_;  // coupled networks only
};

}  // namespace sim::engine::reference
