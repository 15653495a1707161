#include "sim/output/memory/memory_timeline.h"

#include <algorithm>
#include <cassert>

namespace sim::output {

namespace {

using Class = MemoryTimeline::Class;
using Interval = MemoryTimeline::Interval;

void add(Interval& to, const MemoryTimeline::Held& most, const MemoryTimeline::Held& last,
         std::int64_t least_reserved) {
  const std::int64_t reserved =
      to.changed ? std::max(to.most.reserved, most.reserved) : most.reserved;
  if (!to.changed || most.allocated > to.most.allocated) to.most = most;
  to.most.reserved = reserved;
  to.least_reserved = to.changed ? std::min(to.least_reserved, least_reserved) : least_reserved;
  to.last = last;
  to.changed = true;
}

void halve(Class& own) {
  std::vector<Interval> merged((own.intervals.size() + 1) / 2);
  for (std::size_t i = 0; i < own.intervals.size(); ++i) {
    const Interval& one = own.intervals[i];
    if (one.changed) add(merged[i / 2], one.most, one.last, one.least_reserved);
  }
  own.intervals = std::move(merged);
  own.width = 2 * own.width;
}

}  // namespace

void MemoryTimeline::memory(const engine::MemoryChange& change) {
  const auto index = static_cast<std::size_t>(change.rank_class);
  if (classes_.size() <= index) classes_.resize(index + 1);
  Class& own = classes_[index];
  if (change.place.step > own.step) {
    own.step = change.place.step;
    own.steps.push_back(change.when);
  }
  own.now.split[static_cast<std::size_t>(change.category)] += change.delta;
  own.now.allocated = change.allocated.n;
  own.now.reserved = change.reserved.n;
  while (change.when.ps / own.width.ps >= static_cast<std::int64_t>(most_intervals)) halve(own);
  const auto at = static_cast<std::size_t>(change.when.ps / own.width.ps);
  if (own.intervals.size() <= at) own.intervals.resize(at + 1);
  add(own.intervals[at], own.now, own.now, own.now.reserved);
}

Class MemoryTimeline::of(std::size_t rank_class) const {
  Class own = classes_.at(rank_class);
  Held before;
  for (Interval& interval : own.intervals) {
    if (!interval.changed) {
      interval.most = interval.last = before;
      interval.least_reserved = before.reserved;
    }
    interval.least_reserved = std::min(interval.least_reserved, before.reserved);
    before = interval.last;
  }
  return own;
}

}  // namespace sim::output
