// ranks.h — traces of several ranks of one run, each by its own clock.
//
// All ranks leave a collective together, so the ends of collectives that several of them took part
// in say how far apart their clocks are (the median of the differences); what is left of their
// begins is who came last and for how long the others waited.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/match.h"

namespace sim::calibrate {

struct RankTrace {
  int rank = 0;
  const ExpectedStep* expected = nullptr;
  const MeasuredTrace* trace = nullptr;
  const TraceMatch* match = nullptr;
};

struct RankClock {
  int rank = 0;
  std::size_t collectives = 0;  // that it shares with the ranks before it; 0: none, no offset
  double offset_s = 0;          // of its clock, beyond that of the first rank
  double scatter_s = 0;         // median absolute deviation of the differences
  std::size_t last = 0;         // in how many collectives it came last
  double kept_waiting_s = 0;    // for how long the next to last waited for it, in all of them
};

std::vector<RankClock> compare_clocks(const std::vector<RankTrace>& ranks);

}  // namespace sim::calibrate
