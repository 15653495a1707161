// memory_timeline.h — what every rank class holds over time, by category: the data of a plot.
//
// Time is cut into at most `most_intervals` equal intervals; each keeps what was held when most was
// allocated in it, so that no peak is lost however long the run. When the run outgrows them, two
// neighbours become one and intervals are twice as long.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/observer.h"

namespace sim::output {

class MemoryTimeline final : public engine::Observer {
 public:
  static constexpr std::size_t most_intervals = 1024;

  struct Held {
    engine::Split split{};
    std::int64_t allocated = 0;
    std::int64_t reserved = 0;
  };
  struct Interval {
    bool changed = false;
    Held most;  // when most was allocated; the most that was reserved
    Held last;  // at its end
    std::int64_t least_reserved = 0;
  };
  struct Class {
    Duration width{1'000'000};  // of an interval
    std::vector<Interval> intervals;
    std::vector<Time> steps;  // when each step began, set-up first
    int step = -1;
    Held now;
  };

  void operation(int, program::Stream, std::string_view, const engine::Place&, Time, Time,
                 Time) override {}
  void memory(const engine::MemoryChange& change) override;

  std::size_t size() const { return classes_.size(); }
  // answer::Intervals without a change hold what the one before ended with; all begin with it.
  Class of(std::size_t rank_class) const;

 private:
  std::vector<Class> classes_;
};

}  // namespace sim::output
