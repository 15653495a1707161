// reference_memory.cpp — events and waits of the reference engine's driver.
//
// An event is reached when its stream has passed it and the CPU clock is not before that time. The
// CPU clock may be later, since the CPU may have waited for the device.
#include "sim/engine/reference/reference_engine.h"

namespace sim::engine::reference {

namespace {
Mark mark_of(const allocator::Event& event) {
  return {static_cast<std::size_t>(event.stream), event.ticket};
}
}  // namespace

allocator::Event MarkDriver::record_event(int stream) {
  return {stream, rank_.stream[static_cast<std::size_t>(stream)].issued};
}

bool MarkDriver::event_reached(const allocator::Event& event) {
  const Mark mark = mark_of(event);
  return rank_.reached(mark) && rank_.end_of(mark) <= rank_.cpu;
}

void MarkDriver::wait(const allocator::Event& event) {
  waited_ = true;
  const Mark mark = mark_of(event);
  if (rank_.reached(mark)) hold_until(rank_.end_of(mark));
}

Time& MarkDriver::cpu() {
  return rank_.cpu;
}

// The driver frees memory when the device is idle.
Time MarkDriver::idle() const {
  waited_ = true;
  Time last{};
  for (const Rank::StreamState& stream : rank_.stream) last = std::max(last, stream.last_end);
  return last;
}

bool MarkDriver::would_wait(const allocator::Allocator& allocator, std::int64_t bytes, int stream) {
  const Account before = account();
  const Time cpu = rank_.cpu;
  allocator::Allocator copy = allocator;
  copy.set_trace(nullptr);
  waited_ = false;
  copy.allocate(bytes, stream);
  restore(before);
  rank_.cpu = cpu;
  return waited_;
}

}  // namespace sim::engine::reference
