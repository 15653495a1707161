// ring-all-reduce.cpp — a reduce-scatter around the ring, then an all-gather of its results.
//
//     steps 0 .. n-2     chunks collect every rank's share     (add)
//     steps n-1 .. 2n-3  the sums go around once more          (replace)
//
// 2(n - 1) chunks of S/n per rank: 2(n-1)/n S bytes, the lower bound for all-reduce.
//
// Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), theorem 1; NCCL's ring all-reduce.
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_all_reduce(int ranks) {
  Rounds rounds;
  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    Round& round = rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      // The sum of chunk c is complete on rank c after n - 1 steps, and leaves from there.
      const int chunk = (rank - 1 - step + 3 * ranks) % ranks;
      round.push_back({rank, (rank + 1) % ranks, chunk, 1, step < ranks - 1});
    }
  }
  return rounds;
}

}  // namespace sim::collective
