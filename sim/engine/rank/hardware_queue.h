// hardware_queue.h — the launches of a hardware queue: they limit how far the CPU runs ahead.
//
// The fast engine calls it for every launch. With CUDA_DEVICE_MAX_CONNECTIONS=1 all streams of a
// rank share one queue; otherwise each stream has its own. A queue has a fixed number of places.
// When they are full, the CPU waits until the GPU has started enough launches.
//
// Invariant: launches start in the order of issue, and start times never decrease.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"

namespace sim::engine {

class HardwareQueue {
 public:
  // 0 places: no limit.
  explicit HardwareQueue(std::int64_t places) : places_(places) {}

  // Whether the time is known at which `entries` more can be issued: all launches that must start
  // first have a start time. REQUIRES: entries <= places, if there is a limit.
  bool knows_room_for(std::int64_t entries) const {
    return places_ == 0 || issued_ + entries - places_ <= started_;
  }
  // The time at which `entries` more can be issued. REQUIRES: knows_room_for(entries).
  Time room_for(std::int64_t entries) const {
    const std::int64_t before = issued_ + entries - places_;
    return places_ == 0 || before <= 0 ? Time{} : starts_[place(before - 1)];
  }
  // The CPU issues a launch that takes `entries` places.
  void issue(std::int64_t entries) {
    if (places_ == 0) return;
    if (starts_.empty()) starts_.resize(std::bit_ceil(static_cast<std::size_t>(places_)));
    issued_ += entries;
  }
  // The oldest waiting `entries` start at `when`. REQUIRES: `when` is not before earlier starts.
  void start(std::int64_t entries, Time when) {
    if (places_ == 0) return;
    for (; entries > 0; --entries) starts_[place(started_++)] = when;
  }

  // Shifts all start times, when the engine skips repeated work.
  void move_on(Duration by) {
    for (Time& t : starts_) t = t + by;
  }
  // Calls see(start) for the launches that start after `past`, latest first.
  template <typename See>
  void visit_behind(Time past, const See& see) const {
    for (std::int64_t n = started_; n > std::max(started_ - places_, std::int64_t{0}); --n) {
      const Time t = starts_[place(n - 1)];
      if (t <= past) return;
      see(t);
    }
  }
  // Number of issued entries without a known start.
  std::int64_t waiting() const { return issued_ - started_; }

 private:
  std::size_t place(std::int64_t entry) const {
    return static_cast<std::size_t>(entry) & (starts_.size() - 1);
  }

  std::int64_t places_;
  std::vector<Time> starts_;  // start times of the latest entries (ring buffer)
  std::int64_t issued_ = 0, started_ = 0;
};

}  // namespace sim::engine
