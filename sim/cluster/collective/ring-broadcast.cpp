// ring-broadcast.cpp — rank 0 sends its buffer down the chain in n chunks, one after the other.
//
//     round k:  rank r sends chunk k - r to rank r + 1, where that chunk exists
//
// Every rank except the root receives n chunks, the minimum; 2n - 2 rounds fill and drain the
// chain. NCCL's broadcast (ring only).
#include <algorithm>

#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_broadcast(int ranks) {
  Rounds rounds;
  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    Round& round = rounds.emplace_back();
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      const int chunk = step - rank;
      if (chunk >= 0 && chunk < ranks) round.push_back({rank, rank + 1, chunk, 1, false});
    }
  }
  return rounds;
}

}  // namespace sim::collective
