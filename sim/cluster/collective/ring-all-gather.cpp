// ring-all-gather.cpp — every rank sends the chunk that it received last to the right, n - 1 times.
//
//     step k:  rank r sends chunk r - k to rank r + 1            0 -> 1 -> 2 -> 3 -> 0
//
// A rank receives n - 1 chunks. This is the minimum: each rank lacks n - 1 chunks and receives each
// once.
//
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
// Parallel Distrib. Comput. 69 (2009), section 4; NCCL's ring all-gather.
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_all_gather(int ranks) {
  Rounds rounds;
  for (int step = 0; step < ranks - 1; ++step) {
    Round& round = rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      const int chunk = (rank - step + ranks) % ranks;
      round.push_back({rank, (rank + 1) % ranks, chunk, 1, false});
    }
  }
  return rounds;
}

}  // namespace sim::collective
