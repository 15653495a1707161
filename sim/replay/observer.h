// observer.h — what a replay tells those who watch: every operation on every stream, and every
// change of memory. Observers are called in the order of issue of one rank class; classes
// interleave in the order in which their work became known.
#pragma once

#include <string_view>

#include "sim/core/units.h"
#include "sim/replay/report.h"

namespace sim::replay {

struct Observer {
  virtual ~Observer() = default;
  // An operation ran on a stream of a rank class from `start` to `end`. `waited_until` >= start is
  // when its partners were there (collectives and exchanges), else == start.
  virtual void operation(int rank_class, workload::Stream stream, std::string_view name,
                         const Place& place, Time start, Time waited_until, Time end) = 0;
  // A tensor came or went at the CPU's clock; totals are after the change.
  virtual void memory(int rank_class, Time when, workload::Category category, std::int64_t delta,
                      std::string_view label, const Place& place, Bytes allocated,
                      Bytes reserved) = 0;
};

}  // namespace sim::replay
