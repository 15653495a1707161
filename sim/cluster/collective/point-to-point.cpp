// point-to-point.cpp — every rank sends its whole buffer to the next one; the last has no next.
//
//     0 -> 1 -> 2 -> 3      one round: all edges at the same time
//
// Two ranks are one pipeline edge, one direction; more are all edges of a pipeline at once.
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds point_to_point(int ranks) {
  if (ranks < 2) return {};
  Rounds rounds(1);
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    rounds[0].push_back({rank, rank + 1, 0, ranks, false});
  }
  return rounds;
}

}  // namespace sim::collective
