// memory_timeline.h — memory of every rank class over time, by category: the data of a plot.
//
// Time is cut into at most `most_intervals` equal intervals. Each stores the state at its highest
// allocation, so no peak is lost in long runs. If more intervals are needed, pairs of neighbours
// are merged.
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
    Held most;  // state at the highest allocation; highest reserved bytes
    Held last;  // at its end
    std::int64_t least_reserved = 0;
  };
  struct Class {
    Duration width{1'000'000};  // of an interval
    std::vector<Interval> intervals;
    std::vector<Time> steps;  // begin of each step, setup first
    int step = -1;
    Held now;
  };

  void operation(int, program::Stream, std::string_view, const engine::ProgramLocation&, Time, Time,
                 Time) override {}
  void memory(const engine::MemoryChange& change) override;

  std::size_t size() const { return classes_.size(); }
  // The timeline of a rank class. Intervals without a change repeat the end of the interval before.
  // Every interval begins with that state.
  Class of(std::size_t rank_class) const;

 private:
  std::vector<Class> classes_;
};

}  // namespace sim::output
