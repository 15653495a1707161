// driver.h — what the allocator asks of the CUDA driver: memory, address ranges, events.
//
// Invariants
//  (1) The allocator reaches the outside world only through this interface, and knows no time.
//  (2) cuda_free waits for the whole device, unmap for its stream, as the real calls do; a driver
//      with a clock charges for it there.
//
// BumpDriver is the simplest world: a device of fixed capacity, addresses from 0 in steps of
// 2 MiB that are never used twice, streams that run only when told to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/base/units.h"

namespace sim::allocator {

// Nothing lies at or above it.
constexpr std::int64_t last_address = std::int64_t{1} << 62;

// A point in one stream's work. It is reached when the stream has run all that came before it.
struct Event {
  int stream = 0;
  std::int64_t ticket = 0;

  friend constexpr auto operator<=>(const Event&, const Event&) = default;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::optional<std::int64_t> cuda_malloc(Bytes size) = 0;
  virtual void cuda_free(std::int64_t address, Bytes size) = 0;

  // Expandable segments: a range of addresses, then physical pages behind parts of it. map takes
  // all `size` bytes or none.
  virtual std::optional<std::int64_t> reserve_addresses(Bytes size) = 0;
  virtual void release_addresses(std::int64_t address, Bytes size) = 0;
  virtual bool map(std::int64_t address, Bytes size) = 0;
  virtual void unmap(int stream, std::int64_t address, Bytes size) = 0;

  virtual Event record_event(int stream) = 0;
  virtual bool event_reached(const Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  // Where a driver whose tickets are times keeps its clock: an event is reached when its ticket is
  // not above it. nullptr: ask event_reached.
  virtual const std::int64_t* clock() const { return nullptr; }

  virtual Bytes total_memory() const = 0;
  virtual Bytes free_memory() const = 0;  // as cudaMemGetInfo says
};

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

  // Bytes that others hold on the device, from now on.
  void set_outside_use(Bytes bytes) { outside_ = bytes.n; }
  Bytes used() const { return {used_}; }
  void complete(int stream);  // the stream runs everything submitted so far
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
