// rank_memory.h — the memory of one rank while its program runs: tensor slots on top of the
// caching allocator, whose driver knows simulated time.
//
// Invariants
//  (1) A slot holds at most one tensor; free finds one unless it says `maybe`.
//  (2) The split by category sums to the allocator's allocated bytes.
//  (3) After the first out-of-memory event the device is unlimited, so that the rest of the job
//      can still be told what it would have needed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/units.h"
#include "sim/memory/allocator.h"
#include "sim/replay/report.h"
#include "sim/workload/program.h"

namespace sim::replay {

// The CPU clock of a rank and the ends of its streams, as far as they are known.
struct Clock {
  Time cpu{};
  std::array<Time, workload::stream_count> tail{};

  Time idle() const;  // when every stream is idle
};

// What driver calls cost the CPU.
struct DriverCosts {
  Duration malloc{}, malloc_per_gib{}, free{};
};

// A device of fixed capacity in simulated time. Addresses are handed out upwards from 0 in steps
// of 2 MiB; like the real driver's they say nothing about time.
class SimulatedDriver final : public memory::Driver {
 public:
  SimulatedDriver(Clock& clock, Bytes capacity, DriverCosts costs)
      : clock_(clock), capacity_(capacity.n), costs_(costs) {}

  std::optional<std::int64_t> cuda_malloc(Bytes size) override;
  void cuda_free(std::int64_t address, Bytes size) override;
  std::optional<std::int64_t> reserve_addresses(Bytes size) override;
  void release_addresses(std::int64_t, Bytes) override {}
  bool map(std::int64_t address, Bytes size) override;
  void unmap(int stream, std::int64_t address, Bytes size) override;
  memory::Event record_event(int stream) override;
  bool event_reached(const memory::Event& event) override;
  void wait(const memory::Event& event) override;
  Bytes total_memory() const override { return {capacity_}; }
  Bytes free_memory() const override { return {capacity_ - used_}; }

  void lift_limit() { unlimited_ = true; }
  // Outstanding events, oldest first: their times, for comparing and shifting states.
  void save_state(std::vector<std::int64_t>& out, Time origin) const;
  void shift(Duration by);

 private:
  bool take(std::int64_t bytes);

  Clock& clock_;
  std::int64_t capacity_;
  DriverCosts costs_;
  bool unlimited_ = false;
  std::int64_t used_ = 0;
  std::int64_t next_address_ = 0;
  // Tickets are numbers of events; reached ones are forgotten from the front.
  struct Outstanding {
    Time when;
    bool reached = false;
  };
  std::vector<Outstanding> events_;
  std::int64_t first_ticket_ = 0;
};

// Where the rank is in its program; resolved to a Place only when someone asks.
struct Position {
  int step = 0;
  const std::vector<workload::Pass>* passes = nullptr;
  std::uint32_t pass = 0, call = 0, instruction = 0;
};
Place resolve(const workload::Program& program, const Position& position);

class RankMemory {
 public:
  RankMemory(const workload::Program& program, Clock& clock, Bytes capacity, DriverCosts costs,
             const memory::Options& options);

  void allocate(std::uint32_t slot, const workload::Instruction& i, const Position& position);
  void free(std::uint32_t slot, bool maybe);
  void move(std::uint32_t from, std::uint32_t to);
  void record_stream(std::uint32_t slot, workload::Stream stream);

  const memory::Allocator& allocator() const { return allocator_; }
  std::int64_t allocated() const { return allocator_.statistics().all.allocated_bytes.current; }
  std::int64_t reserved() const { return allocator_.statistics().all.reserved_bytes.current; }
  std::int64_t requested(std::uint32_t slot) const { return allocator_.requested(blocks_[slot]); }
  std::int64_t size(std::uint32_t slot) const { return allocator_.size(blocks_[slot]); }
  bool full(std::uint32_t slot) const { return blocks_[slot] != memory::no_block; }
  // Streams that the tensor is recorded on, a bit each.
  std::uint32_t recorded(std::uint32_t slot) const { return recorded_[slot]; }
  workload::Category category(std::uint32_t slot) const {
    return static_cast<workload::Category>(categories_[slot]);
  }

  // Everything that decides what memory does next, relative to `origin`: allocator, events, fixed
  // slots, and the live frames in the order given.
  void save_state(std::vector<std::int64_t>& out, std::span<const std::uint32_t> frames,
                  Time origin) const;
  // The tensors of frame from[i] go to frame to[i].
  void renumber_frames(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to);
  void shift(Duration by) { driver_.shift(by); }

  void mark_static();  // what is allocated now is what a rank holds between steps
  void report(ClassReport& report) const;

 private:
  void note_peak(const Position& position);
  void out_of_memory(const workload::Instruction& i, const Position& position);
  std::uint32_t frame_slot(std::uint32_t frame) const {
    return program_.fixed_slots + program_.local_slots + frame * program_.frame_slots;
  }

  const workload::Program& program_;
  Clock& clock_;
  Bytes capacity_;
  SimulatedDriver driver_;
  memory::Allocator allocator_;
  std::vector<memory::BlockId> blocks_;   // by slot
  std::vector<std::uint8_t> categories_;  // by slot
  std::vector<std::uint32_t> recorded_;   // by slot
  Split split_{};
  std::int64_t peak_ = 0;
  Split peak_split_{};
  Position peak_position_;
  std::int64_t reserved_at_peak_ = 0, static_bytes_ = 0;
  std::optional<OutOfMemory> out_of_memory_;
};

}  // namespace sim::replay
