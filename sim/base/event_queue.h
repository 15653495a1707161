// event_queue.h — the clock and the pending events of a discrete-event simulation.
//
// The reference engine keeps the events of a step in it, the campaign those of a run of weeks. It
// knows nothing of GPUs, links or schedules: the caller chooses the payload of an event.
//
// Invariants
//  (1) now() never decreases.
//  (2) Events of the same instant fire by kind, then in the order of schedule(). A run is therefore
//      a pure function of its inputs.
//
// The queue is a binary heap in a vector. Pushing allocates no memory once the vector has grown.
// `Instant` is any type with an order: picoseconds for a step, a coarser clock for weeks.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"

namespace sim {

template <class Payload, class Instant = Time>
class EventQueue {
 public:
  Instant now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  // Time of the next event. REQUIRES: !empty().
  Instant next() const {
    assert(!heap_.empty());
    return heap_.front().when;
  }

  // REQUIRES: when >= now(). Lower kinds fire first.
  void schedule(Instant when, std::uint8_t kind, Payload payload) {
    assert(when >= now_);
    heap_.push_back({when, (static_cast<std::uint64_t>(kind) << 56) | next_sequence_++, payload});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  // Removes the next event, moves the clock to its time and returns it. REQUIRES: !empty().
  Payload pop() {
    assert(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Entry entry = heap_.back();
    heap_.pop_back();
    assert(entry.when >= now_);
    now_ = entry.when;
    return entry.payload;
  }

 private:
  struct Entry {
    Instant when;
    std::uint64_t order;  // kind, then sequence
    Payload payload;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.order > b.order;
  }

  Instant now_{};
  std::uint64_t next_sequence_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace sim
