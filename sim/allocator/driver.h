// driver.h — the interface of the allocator to the CUDA driver: memory, address ranges, events.
//
// The allocator calls it when no free block serves a request, when it gives memory back, and for
// freed blocks that other streams use. The engine implements it with simulated time
// (engine/rank/rank_memory.h), recorded/ with recorded addresses.
//
// Invariants
//  (1) The allocator has no other connection to the outside, and knows no time.
//  (2) cuda_free waits for the whole device, and unmap for its stream, as the real calls do. A
//      driver with a clock adds the cost of the wait there.
//
// BumpDriver is the simplest driver: a device of fixed capacity. Addresses start at 0, rise in
// steps of 2 MiB and are never reused. Streams advance only by complete().
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/base/units.h"

namespace sim::allocator {

// All addresses are below it.
constexpr std::int64_t last_address = std::int64_t{1} << 62;

// A point in the work of a stream (cudaEvent). It is reached when all earlier work has run.
struct Event {
  int stream = 0;
  std::int64_t ticket = 0;

  friend constexpr auto operator<=>(const Event&, const Event&) = default;
};

class Driver {
 public:
  virtual ~Driver() = default;

  // The address of the new memory; nullopt: out of memory.
  virtual std::optional<std::int64_t> cuda_malloc(Bytes size) = 0;
  virtual void cuda_free(std::int64_t address, Bytes size) = 0;

  // Expandable segments: first reserve a range of addresses, then map physical pages into parts of
  // it. map() maps all `size` bytes or none (false).
  virtual std::optional<std::int64_t> reserve_addresses(Bytes size) = 0;
  virtual void release_addresses(std::int64_t address, Bytes size) = 0;
  virtual bool map(std::int64_t address, Bytes size) = 0;
  virtual void unmap(int stream, std::int64_t address, Bytes size) = 0;

  virtual Event record_event(int stream) = 0;
  virtual bool event_reached(const Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  // The clock of a driver whose event tickets are times: an event is reached when its ticket is at
  // most the clock. It is nullptr for other drivers; event_reached then decides.
  virtual const std::int64_t* clock() const { return nullptr; }

  virtual Bytes total_memory() const = 0;
  virtual Bytes free_memory() const = 0;  // as cudaMemGetInfo reports it
};

// See the file comment. Trace replays and tests use it.
class BumpDriver final : public Driver {
 public:
  explicit BumpDriver(Bytes capacity) : capacity_(capacity.n) {}

  std::optional<std::int64_t> cuda_malloc(Bytes size) override;
  void cuda_free(std::int64_t address, Bytes size) override;
  std::optional<std::int64_t> reserve_addresses(Bytes size) override;
  void release_addresses(std::int64_t address, Bytes size) override;
  bool map(std::int64_t address, Bytes size) override;
  void unmap(int stream, std::int64_t address, Bytes size) override;
  Event record_event(int stream) override;
  bool event_reached(const Event& event) override;
  void wait(const Event& event) override;
  Bytes total_memory() const override { return {capacity_}; }
  Bytes free_memory() const override;

  // Device memory that other processes and libraries hold from now on.
  void set_outside_use(Bytes bytes) { outside_ = bytes.n; }
  Bytes used() const { return {used_}; }
  void complete(int stream);  // the stream finishes all work submitted so far
  void complete_all();

 private:
  struct Stream {
    std::int64_t submitted = 0;
    std::int64_t completed = 0;
  };

  bool fits(std::int64_t bytes) const;
  std::optional<std::int64_t> take_addresses(std::int64_t bytes);

  std::int64_t capacity_;
  std::int64_t outside_ = 0;
  std::int64_t used_ = 0;
  std::int64_t next_address_ = 0;
  std::map<int, Stream> streams_;
};

}  // namespace sim::allocator
