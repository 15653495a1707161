// rank_memory.h — the memory of one rank while its program runs: tensor slots and their allocator.
//
// Both engines have one RankMemory per rank class, and call it for every alloc, free, move and
// record_stream of the program. The driver of its caching allocator knows simulated time.
//
// Invariants
//  (1) A slot holds at most one tensor. free() of an empty slot is an error unless it says `maybe`.
//  (2) The split by category sums to the allocated bytes of the allocator.
//  (3) After the first out-of-memory event the device is unlimited. The rest of the job then shows
//      how much memory it would have needed.
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

// CPU time of driver calls.
struct DriverCosts {
  Duration malloc{}, malloc_per_gib{}, free{};
};

// A device of fixed capacity in simulated time. Addresses rise from 0 in steps of 2 MiB and are
// never reused. Each engine derives a class that adds its streams and events.
class TimedDriver : public allocator::Driver {
 public:
  TimedDriver(Bytes capacity, DriverCosts costs) : capacity_(capacity.n), costs_(costs) {}

  std::optional<std::int64_t> cuda_malloc(Bytes size) override;
  void cuda_free(std::int64_t address, Bytes size) override;
  std::optional<std::int64_t> reserve_addresses(Bytes size) override;
  void release_addresses(std::int64_t, Bytes) override {}
  bool map(std::int64_t address, Bytes size) override;
  void unmap(int stream, std::int64_t address, Bytes size) override;
  // Unlimited after an out-of-memory event: the address ranges of expandable segments follow it.
  Bytes total_memory() const override {
    return {account_.unlimited ? allocator::largest_request : capacity_};
  }
  Bytes capacity() const { return {capacity_}; }
  Bytes free_memory() const override { return {capacity_ - account_.used}; }

  virtual Time& cpu() = 0;
  const Time& cpu() const { return const_cast<TimedDriver*>(this)->cpu(); }
  virtual Time idle() const = 0;  // the time at which every stream is idle
  // The time of an outstanding event relative to `origin`, in ps, for comparing two states. All
  // events that the CPU clock has passed are equal.
  virtual std::int64_t relative(const allocator::Event& event, Time origin) const {
    return std::max(event.ticket, cpu().ps) - origin.ps;
  }
  void lift_limit() { account_.unlimited = true; }
  // From now on driver calls take no time.
  void charge_nothing() { charges_ = false; }
  // Number of driver calls so far that take CPU time. While it is equal, memory has not changed the
  // clock.
  std::int64_t calls() const { return account_.calls; }
  // How long driver calls have held up the CPU so far, waits for the device included.
  Duration delay() const { return account_.delay; }
  void add_delay(Duration delay) { account_.delay += delay; }

  // The state of the driver, to save and restore. Bytes.
  struct Account {
    bool unlimited = false;
    std::int64_t used = 0;
    std::int64_t next_address = 0;
    std::int64_t calls = 0;
    Duration delay{};
  };
  const Account& account() const { return account_; }
  void restore(const Account& account) { account_ = account; }

 protected:
  // The CPU waits for work of the device before it may reuse memory.
  void hold_until(Time end) {
    if (end <= cpu()) return;
    account_.delay += end - cpu();
    cpu() = end;
  }

 private:
  bool take(std::int64_t bytes);

  // Advances the CPU clock by the cost of a call; pass_when_idle waits for the whole device first.
  void pass(Duration cost) { pass_until(cpu() + cost); }
  void pass_when_idle(Duration cost) {
    if (charges_) pass_until(std::max(cpu(), idle()) + cost);
  }
  void pass_until(Time end) {
    if (!charges_) return;
    account_.delay += end - cpu();
    cpu() = end;
  }

  std::int64_t capacity_;
  DriverCosts costs_;
  bool charges_ = true;
  Account account_;
};

// The position of a rank in its program, for the engine. resolve() turns it into a ProgramLocation,
// which takes longer.
struct Position {
  int step = 0;
  const std::vector<program::Pass>* passes = nullptr;
  std::uint32_t pass = 0, call = 0, instruction = 0;
};
ProgramLocation resolve(const program::Program& program, const Position& position);

// Total bytes of some tensors of one stream, in the large and the small pool.
struct RoomNeeded {
  int stream = 0;
  std::int64_t large = 0, small = 0;
};

// See the file comment. Slots are numbered: fixed slots, local slots, then the slots of each frame
// (a microbatch in flight).
class RankMemory {
 public:
  RankMemory(const program::Program& program, TimedDriver& driver,
             const allocator::Options& options);

  // Reports all later changes to `observer`, as those of `rank_class`.
  void watch(Observer& observer, int rank_class);

  // Allocates the tensor of an instruction. Out of memory: notes the event and lifts the limit.
  // REQUIRES: the slot is empty.
  void allocate(std::uint32_t slot, const program::Instruction& i, const Position& position);
  // Frees the tensor of a slot; `maybe`: if there is one. REQUIRES: `position` with an observer.
  void free(std::uint32_t slot, bool maybe, const Position* position = nullptr);
  void move(std::uint32_t from, std::uint32_t to);
  void record_stream(std::uint32_t slot, program::Stream stream);

  // Whether an allocation of `bytes` may have to wait for the device: no cached block serves it,
  // and a new segment has no room or makes the allocator give old ones back. It may be true
  // although no wait is needed, never the reverse.
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
  // The other streams that the tensor of a slot is recorded on.
  program::Streams recorded(std::uint32_t slot) const { return slots_[slot].recorded; }
  program::Category category(std::uint32_t slot) const { return slots_[slot].category; }

  // Whether `tensors` allocations with these total bytes need neither the driver nor a new peak, in
  // whichever free blocks they are placed. Sufficient, not necessary.
  bool room_for(std::span<const RoomNeeded> rooms, std::int64_t tensors) const;

  // Appends everything that decides the future of this memory: allocator, fixed slots, the live
  // frames in the order given, and outstanding events relative to `origin` (TimedDriver::relative).
  void save_state(std::vector<std::int64_t>& out, std::span<const std::uint32_t> frames,
                  Time origin) const;
  std::int64_t retries() const { return allocator_.statistics().num_alloc_retries; }
  void add_retries(std::int64_t count) { allocator_.add_retries(count); }
  // Outstanding events. A ticket is a time in ps if it is below `later`; tickets from `later` on
  // mark events whose time is not known yet.
  // Adds `by` to all known times.
  void shift_events(Duration by, std::int64_t later);
  // Replaces the ticket `ticket` by `now`. Returns the number of events changed.
  std::int64_t set_events(std::int64_t ticket, std::int64_t now);
  std::int64_t events_from(std::int64_t later) const;  // number of events without a known time
  // Moves the tensors of frame from[i] to frame to[i].
  void renumber_frames(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to);

  // Completes frees whose events are reached.
  void poll() { allocator_.poll(); }
  // A layout of segments and tensors that replaces the present one: see rebuild().
  struct Layout {
    struct Tensor {
      std::uint32_t slot = 0;
      std::size_t piece = 0;  // index among the allocated pieces of all segments, in their order
      program::Category category{};
      program::Streams recorded = 0;
    };
    // A freed block that streams still use. They are listed in the order of their frees.
    struct Waiting {
      std::size_t piece = 0;
      std::vector<allocator::Event> events;
    };
    std::vector<allocator::Allocator::InitialSegment> segments;
    std::vector<Tensor> tensors;
    std::vector<Waiting> waiting;
  };
  // Replaces the allocator's segments and all tensors. Peaks stay as they are.
  // REQUIRES: every allocated piece belongs to a tensor or waits.
  void rebuild(const Layout& layout);
  allocator::BlockId block(std::uint32_t slot) const { return slots_[slot].block; }
  std::int64_t peak_allocated() const {
    return std::min(peak_.allocated, allocator_.statistics().all.allocated_bytes.peak);
  }

  // The state at the peak of allocated bytes.
  struct Peak {
    std::int64_t allocated = 0, reserved = 0, largest_free = 0;
    Split split{};
    Position position;
  };
  // A copy of the whole memory, made by keep() and put back by restore().
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
  // When. REQUIRES: ran_out().
  Time out_of_memory_at() const { return out_of_memory_->when; }
  // Ends a step. After step 1 the allocated bytes are those between steps (static bytes).
  void end_step(int step);
  // Fills the memory fields of a report, and shows the allocator to the observer.
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
  std::int64_t step_retries_ = 0, retries_before_ = 0;  // in the last step; up to its end
  std::optional<OutOfMemory> out_of_memory_;
  Observer* observer_ = nullptr;
  int rank_class_ = 0;
  std::vector<allocator::TraceEntry> trace_;
};

}  // namespace sim::engine
