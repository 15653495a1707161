// event_queue.h — the clock and the agenda. It knows nothing of GPUs, links or schedules.
//
// Invariants
//  (1) now() never decreases.
//  (2) Events at one instant fire by kind, then in the order in which they were scheduled: a run is
//      a pure function of its inputs.
//
// A binary heap written out over a vector: pushing does not allocate once the vector has grown.
// `Instant` is any point in time that compares: picoseconds for a step, a coarser clock for weeks.
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
  // When the next event fires. REQUIRES: !empty().
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

  // REQUIRES: !empty().
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
