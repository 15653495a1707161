// hardware_queue.h — launches that wait for the GPU: how far the CPU may be ahead of it.
//
// With CUDA_DEVICE_MAX_CONNECTIONS=1 all streams of a rank share one queue, else each has its own.
// A queue has so many places; the CPU waits to issue more until the GPU has started as many.
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

  // Whether it is known when `entries` more may be issued: the launches that must have started for
  // that have. REQUIRES: entries <= places, where there is a limit.
  bool knows_room_for(std::int64_t entries) const {
    return places_ == 0 || issued_ + entries - places_ <= started_;
  }
  // When they may be. REQUIRES: knows_room_for(entries).
  Time room_for(std::int64_t entries) const {
    const std::int64_t before = issued_ + entries - places_;
    return places_ == 0 || before <= 0 ? Time{} : starts_[place(before - 1)];
  }
  void issue(std::int64_t entries) {
    if (places_ == 0) return;
    if (starts_.empty()) starts_.resize(std::bit_ceil(static_cast<std::size_t>(places_)));
    issued_ += entries;
  }
  // The oldest of those that have not started do, at `when`, not before the one before them.
  void start(std::int64_t entries, Time when) {
    if (places_ == 0) return;
    for (; entries > 0; --entries) starts_[place(started_++)] = when;
  }

  void move_on(Duration by) {
    for (Time& t : starts_) t = t + by;
  }
  // The launches that start behind `past`, from the latest on.
  template <typename See>
  void visit_behind(Time past, const See& see) const {
    for (std::int64_t n = started_; n > std::max(started_ - places_, std::int64_t{0}); --n) {
      const Time t = starts_[place(n - 1)];
      if (t <= past) return;
      see(t);
    }
  }
  // Those that have not started yet, as far as is known.
  std::int64_t waiting() const { return issued_ - started_; }

 private:
  std::size_t place(std::int64_t entry) const {
    return static_cast<std::size_t>(entry) & (starts_.size() - 1);
  }

  std::int64_t places_;
  std::vector<Time> starts_;  // of the latest launches, a ring; with the first launch
  std::int64_t issued_ = 0, started_ = 0;
};

}  // namespace sim::engine
