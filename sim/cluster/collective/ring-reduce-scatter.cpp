// ring-reduce-scatter.cpp — every chunk travels once around the ring and collects each rank's
// share; it ends on its own rank.
//
//     step k:  rank r sends chunk r - 1 - k to rank r + 1, which adds its share
//
// Chunk c starts on rank c + 1 and is complete on rank c after n - 1 steps: n - 1 chunks per rank,
// the lower bound.
//
// Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), section 4; NCCL's ring
// reduce-scatter.
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_reduce_scatter(int ranks) {
  Rounds rounds;
  for (int step = 0; step < ranks - 1; ++step) {
    Round& round = rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      const int chunk = (rank - 1 - step + 2 * ranks) % ranks;
      round.push_back({rank, (rank + 1) % ranks, chunk, 1, true});
    }
  }
  return rounds;
}

}  // namespace sim::collective
