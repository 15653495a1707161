// rank_memory.h — the memory of one rank while its program runs: tensor slots on top of the
// caching allocator, whose driver knows simulated time.
//
// Invariants
//  (1) A slot holds at most one tensor; free finds one unless it says `maybe`.
//  (2) The split by category sums to the allocator's allocated bytes.
//  (3) After the first out-of-memory event the device is unlimited, so that the rest of the job
//      can still be told what it would have needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/units.h"
#include "sim/engine/observer.h"
#include "sim/engine/report.h"
#include "sim/program/ir/program.h"

namespace sim::engine {

// What driver calls cost the CPU.
struct DriverCosts {
  Duration malloc{}, malloc_per_gib{}, free{};
};

// A device of fixed capacity in simulated time. Addresses are handed out upwards from 0 in steps
// of 2 MiB; like the real driver's they say nothing about time. The engines add what they know of
// streams and events.
class TimedDriver : public allocator::Driver {
 public:
  TimedDriver(Bytes capacity, DriverCosts costs) : capacity_(capacity.n), costs_(costs) {}

  std::optional<std::int64_t> cuda_malloc(Bytes size) override;
  void cuda_free(std::int64_t address, Bytes size) override;
  std::optional<std::int64_t> reserve_addresses(Bytes size) override;
  void release_addresses(std::int64_t, Bytes) override {}
  bool map(std::int64_t address, Bytes size) override;
  void unmap(int stream, std::int64_t address, Bytes size) override;
  // Without a limit also the address ranges of expandable segments, which grow with it, hold all.
  Bytes total_memory() const override {
    return {account_.unlimited ? allocator::largest_request : capacity_};
  }
  Bytes capacity() const { return {capacity_}; }
  Bytes free_memory() const override { return {capacity_ - account_.used}; }

  virtual Time& cpu() = 0;
  const Time& cpu() const { return const_cast<TimedDriver*>(this)->cpu(); }
  virtual Time idle() const = 0;  // when every stream is idle
  // What tells outstanding events apart in a state that begins at `origin`: those that the CPU
  // clock has passed are alike.
  virtual std::int64_t relative(const allocator::Event& event, Time origin) const {
    return std::max(event.ticket, cpu().ps) - origin.ps;
  }
  void lift_limit() { account_.unlimited = true; }
  // From here on calls take no time.
  void charge_nothing() { charges_ = false; }
  // Calls so far that cost the CPU time; between two equal numbers memory did not touch the clock.
  std::int64_t calls() const { return account_.calls; }

  struct Account {
    bool unlimited = false;
    std::int64_t used = 0;
    std::int64_t next_address = 0;
    std::int64_t calls = 0;
  };
  const Account& account() const { return account_; }
  void restore(const Account& account) { account_ = account; }

 private:
  bool take(std::int64_t bytes);

  // The CPU clock behind a call that took so long, or waited for the whole device first.
  void pass(Duration cost) {
    if (charges_) cpu() = cpu() + cost;
  }
  void pass_when_idle(Duration cost) {
    if (charges_) cpu() = std::max(cpu(), idle()) + cost;
  }

  std::int64_t capacity_;
  DriverCosts costs_;
  bool charges_ = true;
  Account account_;
};

// Where the rank is in its program; resolved to a Place only when someone asks.
struct Position {
  int step = 0;
  const std::vector<program::Pass>* passes = nullptr;
  std::uint32_t pass = 0, call = 0, instruction = 0;
};
Place resolve(const program::Program& program, const Position& position);

// Bytes of some tensors in all, above and below the allocator's small limit.
struct RoomNeeded {
  int stream = 0;
  std::int64_t large = 0, small = 0;
};

class RankMemory {
 public:
  RankMemory(const program::Program& program, TimedDriver& driver,
             const allocator::Options& options);

  // Tells `observer` of the changes to come, as those of `rank_class`.
  void watch(Observer& observer, int rank_class);

  void allocate(std::uint32_t slot, const program::Instruction& i, const Position& position);
  // REQUIRES: `position` when somebody watches.
  void free(std::uint32_t slot, bool maybe, const Position* position = nullptr);
  void move(std::uint32_t from, std::uint32_t to);
  void record_stream(std::uint32_t slot, program::Stream stream);

  // Whether an allocation of `bytes` may have to wait for the device: not in the cache, and the
  // device has hardly more.
  bool may_wait(std::int64_t bytes, program::Stream stream);
  const allocator::Allocator& allocator() const { return allocator_; }
  std::int64_t allocated() const { return allocator_.statistics().all.allocated_bytes.current; }
  std::int64_t reserved() const { return allocator_.statistics().all.reserved_bytes.current; }
  std::int64_t peak_reserved() const { return allocator_.statistics().all.reserved_bytes.peak; }
  std::int64_t requested(std::uint32_t slot) const {
    return allocator_.requested(slots_[slot].block);
  }
  std::int64_t size(std::uint32_t slot) const { return allocator_.size(slots_[slot].block); }
  bool full(std::uint32_t slot) const { return slots_[slot].block != allocator::no_block; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }
  // Streams that the tensor is recorded on.
  program::Streams recorded(std::uint32_t slot) const { return slots_[slot].recorded; }
  program::Category category(std::uint32_t slot) const { return slots_[slot].category; }

  // Whether so many allocations one after the other would be answered without the driver and
  // without a new peak, wherever they went.
  bool room_for(std::span<const RoomNeeded> rooms, std::int64_t tensors) const;

  // Everything that decides what memory does next: allocator, fixed slots, the live frames in the
  // order given, and outstanding events relative to `origin`, when their tickets are picoseconds;
  // those that the CPU clock has passed are alike.
  void save_state(std::vector<std::int64_t>& out, std::span<const std::uint32_t> frames,
                  Time origin) const;
  std::int64_t retries() const { return allocator_.statistics().num_alloc_retries; }
  void add_retries(std::int64_t count) { allocator_.add_retries(count); }
  // Outstanding events whose time is known (before `later`) are reached `by` later.
  void shift_events(Duration by, std::int64_t later);
  // Those with a ticket get another.
  std::int64_t set_events(std::int64_t ticket, std::int64_t now);  // how many there were
  std::int64_t events_from(std::int64_t later) const;  // how many there are from `later` on
  // The tensors of frame from[i] go to frame to[i].
  void renumber_frames(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to);

  // Completes what the streams have let go.
  void poll() { allocator_.poll(); }
  // The allocator's segments and the tensors in them, in the place of what is there now. Peaks
  // stay, and slots that hold a tensor from before and for good keep what they know of it.
  struct Layout {
    struct Tensor {
      std::uint32_t slot = 0;
      std::size_t piece = 0;  // of the allocated pieces of all segments, in their order
      program::Category category{};
      program::Streams recorded = 0;
    };
    // Freed, in this order; streams still use it.
    struct Waiting {
      std::size_t piece = 0;
      std::vector<allocator::Event> events;
    };
    std::vector<allocator::Allocator::InitialSegment> segments;
    std::vector<Tensor> tensors;
    std::vector<Waiting> waiting;
  };
  // REQUIRES: every allocated piece is a tensor's or waits.
  void rebuild(const Layout& layout);
  allocator::BlockId block(std::uint32_t slot) const { return slots_[slot].block; }
  std::int64_t peak_allocated() const {
    return std::min(peak_.allocated, allocator_.statistics().all.allocated_bytes.peak);
  }

  // What was held when most was allocated.
  struct Peak {
    std::int64_t allocated = 0, reserved = 0, largest_free = 0;
    Split split{};
    Position position;
  };
  // Keeps and puts back everything.
  struct TensorSlot {
    allocator::BlockId block = allocator::no_block;
    program::Category category{};
    program::Streams recorded = 0;
  };
  struct Retained {
    allocator::Allocator allocator;
    std::vector<TensorSlot> slots;
    Split split;
    TimedDriver::Account account;
    Peak peak;
    std::optional<OutOfMemory> out_of_memory;
  };
  Retained keep() const;
  void restore(const Retained& kept);

  bool ran_out() const { return out_of_memory_.has_value(); }
  void mark_static();  // what is allocated now is what a rank holds between steps
  // Fills what a report says about memory; the observer sees the allocator as it is now.
  void report(ClassReport& report);

 private:
  void tell(program::Category category, std::int64_t delta, std::int64_t address,
            const Position& position);
  void tell_state(bool out_of_memory);
  void lift_limits();
  void note_peak(const Position& position);
  void out_of_memory(const program::Instruction& i, const Position& position);
  std::uint32_t frame_slot(std::uint32_t frame) const {
    return program_.fixed_slots + program_.local_slots + frame * program_.frame_slots;
  }

  const program::Program& program_;
  TimedDriver& driver_;
  allocator::Allocator allocator_;
  std::vector<TensorSlot> slots_;
  Split split_{};
  Peak peak_;
  std::int64_t static_bytes_ = 0;
  std::optional<OutOfMemory> out_of_memory_;
  Observer* observer_ = nullptr;
  int rank_class_ = 0;
  std::vector<allocator::TraceEntry> trace_;
};

}  // namespace sim::engine
