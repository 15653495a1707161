// ranks.h — compares traces of several ranks of one run, each with its own clock. The command
// `calibrate` calls it.
//
// All ranks leave a collective together. The median difference of the ends of shared collectives is
// therefore the offset of two clocks. After that correction, the begins show which rank came last
// and how long the others waited.
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
  std::size_t collectives = 0;  // shared with an earlier rank; 0: none, so no offset
  double offset_s = 0;          // of its clock relative to the first rank's
  double scatter_s = 0;         // median absolute deviation of the differences
  std::size_t last = 0;         // number of collectives where it came last
  double kept_waiting_s = 0;    // total time that the next to last rank waited for it
};

std::vector<RankClock> compare_clocks(const std::vector<RankTrace>& ranks);

}  // namespace sim::calibrate
